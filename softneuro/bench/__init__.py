"""Speed of a plan beside other engines: each in a process of its own, taking turns. Data here, drawing in the command."""
