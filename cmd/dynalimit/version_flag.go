package main

// asksVersion reports whether the only argument is --version. It is not a flag of the parser,
// because commands that change a source have another --version.
func asksVersion(args []string) bool { return len(args) == 1 && args[0] == "--version" }
