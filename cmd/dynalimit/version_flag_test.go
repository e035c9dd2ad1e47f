package main

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/version"
)

func TestVersionFlagAloneTellsTheVersion(t *testing.T) {
	code, stdout, stderr := runPlain(t, "--version")
	assert.Equal(t, exitOK, code)
	assert.Equal(t, version.Current().String()+"\n", stdout)
	assert.Empty(t, stderr)

	code, stdout, _ = runPlain(t, "--version", "1")
	assert.Equal(t, exitUsage, code)
	assert.Empty(t, stdout)
}
