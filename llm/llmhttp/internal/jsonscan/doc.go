// Package jsonscan finds the values at a fixed set of paths in JSON that arrives in pieces.
//
// Keys are case-sensitive, the whole grammar of RFC 8259 is checked, and values at no path are
// skipped unbuffered, so that no input takes more than some 64 KiB plus Options.Capture.
package jsonscan
