// Package jsonscan finds the values at a fixed set of paths in JSON that arrives in pieces.
//
// Keys are told apart by case, the whole grammar of RFC 8259 is checked, and what is at no path is
// skipped unbuffered, so that no input takes more than some 64 KiB, and what Options.Capture allows.
package jsonscan
