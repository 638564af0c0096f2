"""What a layer means: parameters, shape rule, numpy reference and operation count of every op family."""
