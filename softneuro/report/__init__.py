"""What is shown of a plan and its runs: tables, candidates, traces, pages. Data here, drawing in the commands."""
