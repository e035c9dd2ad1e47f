package main

// asksVersion reports whether somebody tries what any program is asked. It is no flag of
// the parser, as --version of the commands that change a level is that of the level.
func asksVersion(args []string) bool { return len(args) == 1 && args[0] == "--version" }
