package credentials

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/keeper/internal/fixture"
)

// shown is a value in every form in which it may be printed, logged or encoded.
func shown(t *testing.T, v any) string {
	t.Helper()
	var b strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T"} {
		fmt.Fprintf(&b, verb+"\n", v)
	}
	fmt.Fprintln(&b, v, &v, []any{v}, map[string]any{"v": v}, errors.New(fmt.Sprint(v)))
	text, err := json.Marshal(map[string]any{"v": v, "list": []any{v}})
	require.NoError(t, err)
	b.Write(text)
	for _, handler := range []slog.Handler{slog.NewTextHandler(&b, nil), slog.NewJSONHandler(&b, nil)} {
		slog.New(handler).Info("shown", "v", v, slog.Group("g", "v", v), slog.Any("pointer", &v))
	}
	func() {
		defer func() { fmt.Fprintf(&b, "%v %+v\n%s", recover(), v, debug.Stack()) }()
		panic(v)
	}()
	return b.String()
}

func TestSecretsAreNotShown(t *testing.T) {
	const text = "hush-hush-value"
	s := NewSecret(text)
	for name, v := range map[string]any{
		"itself":         s,
		"a pointer":      &s,
		"a field":        struct{ Secret Secret }{s},
		"a hidden field": struct{ secret Secret }{s},
		"a deep field": struct {
			a *struct{ b struct{ c Secret } }
		}{&struct{ b struct{ c Secret } }{struct{ c Secret }{s}}},
		"a list":          []Secret{s},
		"a map":           map[string]Secret{"s": s},
		"credentials":     Credentials{Secret: s},
		"a new key":       NewKey{Secret: s},
		"an issued token": Issued{Token: s},
		"a rotation":      Rotation{Issued: Issued{Token: s}},
		"options":         Options{ImportedDecoy: s}.ImportedDecoy,
	} {
		assert.NotContains(t, shown(t, v), text, name)
		assert.NotContains(t, shown(t, v), fmt.Sprintf("%x", text), name)
	}
	assert.Equal(t, text, s.Reveal())
	assert.True(t, s.Equal(NewSecret(text)))
	assert.False(t, s.Equal(NewSecret("other")))
	var read struct{ S Secret }
	require.NoError(t, json.Unmarshal([]byte(`{"S":"from a file"}`), &read))
	assert.Equal(t, "from a file", read.S.Reveal())
	assert.True(t, Secret{}.Empty())
}

func TestKeysAreNotShown(t *testing.T) {
	set, err := NewKeySet(chance(2), fixtureNow)
	require.NoError(t, err)
	signer, pepper := set.Signer(fixtureNow), set.Pepper(fixtureNow)
	for name, v := range map[string]any{"a set": set, "its value": *set, "a signer": signer, "a pepper": pepper, "a document": set.Document()} {
		assertNoneShown(t, shown(t, v), name, NewSecret(string(signer.Private().Seed())), pepper.key)
	}
}

// assertNoneShown looks for secrets in a text: as they are, and as bytes, hex and numbers.
func assertNoneShown(t *testing.T, text, where string, secrets ...Secret) {
	t.Helper()
	for _, s := range secrets {
		raw := []byte(s.Reveal())
		for _, form := range []string{s.Reveal(), fmt.Sprintf("%x", raw), fmt.Sprintf("%X", raw), strings.Trim(fmt.Sprint(raw), "[]"), strings.Trim(fmt.Sprintf("%#v", raw), "[]byte{}")} {
			assert.NotContains(t, text, form, where)
		}
	}
}

// Everything that this package writes somewhere, of a life with every kind of secret, has
// none of them: its log, its errors and the table.
func TestNoSecretIsWrittenAnywhere(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	var secrets []Secret
	var errs []error
	keep := func(s ...Secret) { secrets = append(secrets, s...) }
	for _, seed := range []KeySource{w.keys} {
		keep(NewSecret(string(seed.Keys().Signer(fixtureNow).Private().Seed())), seed.Keys().Pepper(fixtureNow).key)
	}
	for _, app := range []string{"", appA, "fetched"} {
		issued, err := w.a.Create(ctx, orgO, app)
		require.NoError(t, err)
		keep(issued.Token)
		first := w.retrieve(w.a, issued).Secret
		rotation, err := w.a.Rotate(ctx, orgO, app, 24)
		require.NoError(t, err)
		keep(rotation.Token, first)
		if app != "fetched" {
			keep(w.retrieve(w.a, rotation.Issued).Secret)
		}
		errs = append(errs, second(w.a.Retrieve(ctx, orgO, app, issued.Token)), second(w.a.Verify(ctx, issued.ClientID, issued.Token)))
	}
	key, err := w.a.CreateKey(ctx, "console")
	require.NoError(t, err)
	keep(key.Secret)
	errs = append(errs, second(w.a.CreateKey(ctx, "console")), second(w.a.VerifyKey(ctx, secrets[0])))

	rotated, err := w.keys.Rotated(chance(9), w.clock.Now().Add(-time.Hour), 0)
	require.NoError(t, err)
	next := w.node(func(o *Options) { o.Keys = rotated })
	_, err = next.Verify(ctx, ClientID(orgO, ""), secrets[4])
	errs = append(errs, err)
	w.db.SetFaults(fixture.Down)
	brief := w.node(func(o *Options) { o.Timeout, o.RequestTimeout = 50*time.Millisecond, 20*time.Millisecond })
	errs = append(errs, second(brief.Verify(ctx, ClientID(orgO, ""), secrets[4])), second(brief.VerifyKey(ctx, key.Secret)),
		second(brief.Retrieve(ctx, orgO, "", secrets[2])), second(brief.Rotate(ctx, orgO, "", 1)))
	w.db.SetFaults(nil)

	var b strings.Builder
	for _, err := range errs {
		fmt.Fprintf(&b, "%v %+v %#v\n", err, err, err)
	}
	out, err := w.client.(interface{ dynamodb.ScanAPIClient }).Scan(ctx, &dynamodb.ScanInput{TableName: &w.table})
	require.NoError(t, err)
	require.NotEmpty(t, out.Items)
	var dump strings.Builder
	for _, item := range out.Items {
		for name, v := range item {
			text, err := json.Marshal(v)
			require.NoError(t, err)
			fmt.Fprintf(&dump, "%s %s %+v\n", name, text, v)
		}
	}
	assertNoneShown(t, w.log.String(), "the log", secrets...)
	assertNoneShown(t, b.String(), "errors", secrets...)
	assertNoneShown(t, dump.String(), "the table", secrets...)
	require.Contains(t, dump.String(), "v1:", "the dump has what is stored")
}
