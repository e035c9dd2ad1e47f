package main

import (
	"cmp"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/keeper/serve"
)

// TestKeeperTakesFlagsBeforeEnvironmentBeforeFile: the nearest that says anything says, also
// where it says nothing: 0s, no file, no list.
func TestKeeperTakesFlagsBeforeEnvironmentBeforeFile(t *testing.T) {
	newShell(t)
	base := "listen: 127.0.0.1:1\n"
	of := func(text string, env map[string]string, args ...string) (keeper.Config, error) {
		file := filepath.Join(t.TempDir(), "keeper.yaml")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		for name, value := range env {
			t.Setenv(name, value)
			defer func() { require.NoError(t, os.Unsetenv(name)) }()
		}
		p := programs.Get().(*cli)
		defer func() { p.forget(); programs.Put(p) }()
		_, err := p.Parse(append([]string{"keeper", "serve", "--config", file}, args...))
		require.NoError(t, err)
		return p.Keeper.Serve.mergeConfig()
	}
	fields := map[string]func(keeper.Config) any{
		"listen":           func(c keeper.Config) any { return c.Listen },
		"metrics":          func(c keeper.Config) any { return c.Metrics },
		"forwarded-header": func(c keeper.Config) any { return c.ForwardedHeader },
		"shutdown-delay":   func(c keeper.Config) any { return time.Duration(c.Shutdown.Delay).String() },
		"shutdown-time":    func(c keeper.Config) any { return time.Duration(c.Shutdown.Time).String() },
		"linger": func(c keeper.Config) any {
			if c.Linger == nil {
				return ""
			}
			return time.Duration(*c.Linger).String()
		},
		"spool":        func(c keeper.Config) any { return c.Spool },
		"keyset":       func(c keeper.Config) any { return c.Keyset },
		"behind-proxy": func(c keeper.Config) any { return strings.Join(c.BehindProxy, ",") },
		"cors-origin":  func(c keeper.Config) any { return strings.Join(c.CORSOrigins, ",") },
		"tls":          func(c keeper.Config) any { return c.TLS.Cert + c.TLS.Key },
	}
	for _, row := range []struct{ flag, file, value, other, nothing, unsaid string }{
		{"listen", "listen: 127.0.0.1:1\n", "127.0.0.1:2", "127.0.0.1:3", "", "127.0.0.1:8080"},
		{"metrics", "metrics: 127.0.0.1:1\n", "127.0.0.1:2", "off", "", "127.0.0.1:9090"},
		{"forwarded-header", "forwarded_header: forwarded\n", "Forwarded", "X-Forwarded-For", "", "X-Forwarded-For"},
		{"shutdown-delay", "shutdown: {delay: 7s}\n", "8s", "9s", "0s", "0s"},
		{"shutdown-time", "shutdown: {time: 7s}\n", "8s", "9s", "", "20s"},
		{"linger", "linger: 7ms\n", "8ms", "9ms", "", ""},
		{"spool", "spool: a\n", "b", "c", "none", ""},
		{"keyset", "keyset: a\n", "b", "", "none", ""},
		{"behind-proxy", "behind_proxy: [10.0.0.1]\n", "10.0.0.2,10.0.0.3", "10.0.0.4", "none", ""},
		{"cors-origin", "cors_origins: ['https://a']\n", "https://b,https://c", "https://d", "none", ""},
	} {
		get, nothing := fields[row.flag], row.nothing
		if nothing == "none" {
			nothing = ""
		}
		got := func(text string, env map[string]string, args ...string) any {
			c, err := of(text, env, args...)
			require.NoError(t, err, row.flag)
			return get(c)
		}
		variable := "DYNALIMIT_KEEPER_" + strings.ToUpper(strings.ReplaceAll(row.flag, "-", "_"))
		assert.Equal(t, row.unsaid, got("", nil), "%s: the default", row.flag)
		inFile := got(row.file, nil)
		assert.NotEqual(t, row.unsaid, inFile, "%s: the file", row.flag)
		assert.Equal(t, row.value, got(row.file, nil, "--"+row.flag, row.value), "%s: the flag before the file", row.flag)
		if row.other != "" { // one that has a variable
			env := map[string]string{variable: row.other}
			assert.Equal(t, row.other, got(row.file, env), "%s: the environment before the file", row.flag)
			assert.Equal(t, row.value, got(row.file, env, "--"+row.flag, row.value), "%s: the flag before both", row.flag)
		}
		if row.nothing == "" {
			_, err := of(row.file, nil, "--"+row.flag, cmp.Or(map[string]string{"shutdown-time": "0s", "linger": "0s"}[row.flag], ""))
			require.Error(t, err, "%s: it has to be something", row.flag)
			continue
		}
		assert.Equal(t, nothing, got(row.file, nil, "--"+row.flag, nothing), "%s: a flag of nothing before the file", row.flag)
		if row.other != "" {
			assert.Equal(t, nothing, got(row.file, map[string]string{variable: row.other}, "--"+row.flag, nothing), "%s: a flag of nothing before both", row.flag)
			assert.Equal(t, nothing, got(row.file, map[string]string{variable: nothing}), "%s: a variable of nothing before the file", row.flag)
		}
	}
	tls := fields["tls"]
	file := "tls: {cert: a, key: b}\n" + base
	for want, args := range map[string][]string{"ab": nil, "cd": {"--tls-cert", "c", "--tls-key", "d"}, "": {"--tls-cert", "", "--tls-key", ""}} {
		c, err := of(file, nil, args...)
		require.NoError(t, err)
		assert.Equal(t, want, tls(c))
	}
	c, err := of(file, map[string]string{"DYNALIMIT_KEEPER_TLS_CERT": "e", "DYNALIMIT_KEEPER_TLS_KEY": "f"}, "--tls-key", "g")
	require.NoError(t, err)
	assert.Equal(t, "eg", tls(c))
	c, err = of("keyset: a\n", map[string]string{keysetVariable: "{}"})
	require.NoError(t, err)
	assert.Empty(t, c.Keyset, "keys in the environment are before a file that the file names")
	c, err = of("keyset: a\n", map[string]string{keysetVariable: "{}"}, "--keyset", "b")
	require.NoError(t, err)
	assert.Equal(t, "b", c.Keyset)
	c, err = of("", nil, "--behind-proxy", "10.0.0.1", "--behind-proxy", "10.0.0.2,10.0.0.3")
	require.NoError(t, err)
	assert.Equal(t, []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}, c.BehindProxy, "each of a flag that is there twice")
}

// TestKeeperFlagsAreAllInTheTable: a flag that the file has too is in the test above.
func TestKeeperFlagsAreAllInTheTable(t *testing.T) {
	var flags []string
	for _, field := range reflect.VisibleFields(reflect.TypeFor[keeperServeCmd]()) {
		flags = append(flags, field.Name)
	}
	assert.ElementsMatch(t, []string{
		"Listen", "Metrics", "TLSCert", "TLSKey", "BehindProxy", "ForwardedHeader", "CORSOrigin", "ShutdownDelay", "ShutdownTime", "Spool", "Linger", "Keyset",
		"Config", "Control", "Usage", "CreateTables", // which no file has
	}, flags)
}
