// Package house holds the rules of size and structure that every folder of this
// repository keeps. It has tests alone.
package house
