package main

import "fmt"

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// wantWord refuses an argument that is empty.
func wantWord(what, word string) error {
	if word == "" {
		return fmt.Errorf("the %s is empty: give one", what)
	}
	return nil
}

// barWidth is a full bar's.
const barWidth = 32
