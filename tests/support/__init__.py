"""What several test files share: data, references, modules and ways to run commands."""
