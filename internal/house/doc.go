// Package house holds the rules of size and structure that every folder of this
// repository keeps. It has tests alone. Command measures, below it, holds how much of the limiter
// runs for one call.
package house
