"""What `softneuro demo` shows: a small CNN trained on Fashion-MNIST, and pictures to try it on."""
