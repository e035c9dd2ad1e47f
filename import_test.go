package dynalimit_test

import (
	"encoding/json"
	"errors"
	"go/build"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	module = "github.com/dynalimit/dynalimit"
	sdk    = "github.com/aws/aws-sdk-go-v2"
	// testify is for tests and the harness of the laws.
	testify = "github.com/stretchr/testify"
)

// importRow says what the shipped code of a folder may import besides its own
// subfolders. Tests may import more: the engine, for one.
type importRow struct {
	folder  string   // "." is the root alone; any other row covers its subfolders too
	std     []string // nil: all of the standard library
	project []string // folders of this module
	others  []string // other modules' packages and what lies below them
	reason  string
	future  bool // the folder may not exist yet
	tests   bool // for tests: nothing that ships imports it
}

// pureStd is what values and their encoding need: no network, no files. Package
// time is for its types; the linters refuse its clock below internal/.
var pureStd = []string{
	"bytes", "cmp", "errors", "fmt", "maps", "math", "math/bits", "slices", "strconv", "strings", "sync", "time", "unicode/utf8",
}

var importTable = []importRow{
	{
		folder: ".",
		project: []string{
			"audit", "internal/trail", "internal/backlog", "internal/bookkeeping", "internal/bucket", "internal/cache", "internal/calendar", "internal/call", "internal/config", "internal/ddb", "internal/guard", "internal/lane", "internal/layout", "internal/legacy", "internal/lock", "internal/plan",
			"fault", "internal/problem", "internal/schema", "internal/shared", "internal/store", "internal/table", "internal/usage", "sources", "observe",
		},
		others: []string{sdk, "github.com/aws/smithy-go", "golang.org/x/sync", "github.com/hashicorp/golang-lru/v2"},
		reason: "the limiter takes a client from its user; engines, budgets and tools are not its business",
	},
	{
		folder:  "awsclient",
		std:     []string{"context", "fmt", "log/slog", "net/http", "sync"},
		project: []string{"leanddb"},
		others:  []string{sdk},
		reason:  "it loads the SDK's configuration, which nobody carries who makes his client himself",
	},
	{
		folder: "leanddb",
		std: []string{
			"bytes", "cmp", "context", "crypto/rand", "crypto/sha256", "encoding/base64", "encoding/hex", "hash/crc32", "io", "maps", "net/http", "net/url", "os", "reflect", "slices", "strconv", "strings", "sync", "sync/atomic", "time", "unicode/utf8",
		},
		others: []string{sdk, "github.com/aws/smithy-go"},
		reason: "a client of DynamoDB for whoever has the SDK's: it knows no limiter, and no limiter knows it",
	},
	{
		folder:  "internal/bucket",
		std:     []string{"cmp", "errors", "math", "math/bits", "slices"},
		project: []string{"internal/calendar"},
		reason:  "arithmetic that takes time as an argument, so that every rule can be tested at every moment",
	},
	{
		folder:  "internal/backlog",
		std:     []string{"container/heap", "math", "sync"},
		project: []string{"internal/bucket"},
		reason:  "what is held, counted and in doubt is arithmetic, so that every order of events can be visited",
	},
	{
		folder: "internal/bookkeeping",
		std:    []string{},
		reason: "a limiter of this project's own counters for its servers: the limiter sets it, so it cannot import the limiter",
	},
	{
		folder: "internal/guard",
		others: []string{"golang.org/x/sync"},
		reason: "what keeps a call that does not return from ending more than itself, for every package",
	},
	{
		folder: "sources",
		reason: "names that a user compares, and nothing else",
	},
	{
		folder: "observe",
		std:    []string{"context", "time"},
		reason: "what an observer is told are values, so that whoever implements one imports nothing else",
	},
	{
		folder:  "internal/call",
		std:     append([]string{"context", "iter", "log/slog", "math/rand/v2", "runtime", "sync/atomic"}, pureStd...),
		project: []string{"fault", "internal/backlog", "internal/bucket", "internal/config", "internal/ddb", "internal/guard", "internal/lane", "internal/plan", "internal/schema", "internal/store", "sources", "observe"},
		others:  []string{sdk + "/service/dynamodb/types"},
		reason:  "one call over its buckets: it knows no error and no value of users, which the root makes",
	},
	{
		folder:  "internal/config",
		std:     append([]string{"context", "crypto/sha256", "encoding/binary", "log/slog", "reflect", "sync/atomic"}, pureStd...),
		project: []string{"fault", "internal/bucket", "internal/cache", "internal/calendar", "internal/plan", "internal/schema", "sources"},
		reason:  "which source wins is decided from items alone, so that every combination can be compared with a naive table; the items come from a store that it is given",
	},
	{
		folder:  "internal/lane",
		std:     append([]string{"context", "crypto/rand", "encoding/binary", "log/slog", "math/rand/v2", "runtime", "runtime/debug", "sync/atomic"}, pureStd...),
		project: []string{"internal/backlog", "internal/bucket", "internal/cache", "internal/ddb", "internal/guard", "internal/plan", "internal/prefetch", "fault", "internal/problem", "internal/schema"},
		reason:  "it queues and sends by a store that it is given: it knows neither the limiter above it nor how requests are made",
	},
	{
		folder:  "internal/store",
		std:     append([]string{"context", "crypto/rand", "log/slog"}, pureStd...),
		project: []string{"fault", "internal/cache", "internal/ddb", "internal/guard", "internal/lane", "internal/layout", "internal/legacy", "internal/plan", "internal/schema", "internal/table"},
		others:  []string{sdk},
		reason:  "it sends the requests of lanes and transactions, and decides nothing: it knows no limiter and no configuration",
	},
	{
		folder:  "internal/plan",
		std:     []string{"math", "slices", "strings"},
		project: []string{"internal/bucket", "internal/schema"},
		reason:  "what to write is decided from values, time among them, so that a search can visit every state with the real decisions",
	},
	{
		folder:  "internal/prefetch",
		std:     []string{"math", "slices"},
		project: []string{"internal/plan"},
		reason:  "what is debited ahead, and when it lapses, is decided from values, so that a search can visit every state",
	},
	{
		folder:  "internal/cache",
		std:     []string{"context", "errors", "hash/maphash", "math", "sync", "sync/atomic", "time"},
		project: []string{"internal/guard"},
		others:  []string{"golang.org/x/sync"},
		reason:  "what is kept is the users' own; how it is kept is the same for everybody",
	},
	{
		folder:  "internal/schema",
		std:     append([]string{"encoding/binary", "encoding/json", "hash/fnv", "regexp"}, pureStd...),
		project: []string{"fault", "internal/bucket", "internal/calendar"},
		others:  []string{sdk + "/aws", sdk + "/service/dynamodb/types"},
		reason:  "keys, attributes and expressions are values; whoever sends them is elsewhere",
	},
	{
		folder:  "internal/ddb",
		project: []string{"internal/guard"},
		others:  []string{sdk, "github.com/aws/smithy-go"},
		reason:  "how to talk to DynamoDB, whatever is said: limiter and budget must judge an error alike, so neither may be known here",
	},
	{
		folder:  "internal/usage",
		std:     pureStd,
		project: []string{"internal/schema"},
		reason:  "what records add up to is decided from values, so that every order, repetition and loss of them can be played",
	},
	{
		folder:  "internal/shards",
		std:     append([]string{"hash/fnv", "iter"}, pureStd...),
		project: []string{"internal/schema"},
		reason:  "who reads which shard, and in which order, is decided from values, so that every constellation can be tried",
	},
	{
		folder: "aggregator",
		std:    append([]string{"context", "crypto/rand", "iter", "math/rand/v2", "runtime/debug", "sync/atomic", "unicode/utf8"}, pureStd...),
		project: []string{
			"audit", "internal/trail", "internal/ddb", "internal/guard", "internal/layout", "internal/lock", "fault", "internal/problem", "internal/schema", "internal/shards", "internal/table", "internal/usage",
		},
		others: []string{sdk, "github.com/aws/smithy-go", "golang.org/x/sync"},
		reason: "it reads what the limiter writes and needs nothing of how it decides",
	},
	{
		folder:  "aggregator/archive",
		std:     append([]string{"bufio", "compress/gzip", "context", "crypto/rand", "crypto/sha256", "encoding/hex", "encoding/json", "io", "iter", "os", "path", "path/filepath", "runtime/debug", "sync/atomic"}, pureStd...),
		project: []string{"aggregator", "audit", "internal/trail", "fault", "internal/guard", "internal/problem", "internal/schema", "internal/usage"},
		others:  []string{sdk + "/service/dynamodb/types"},
		reason:  "it makes files of records that it is given, and knows nothing of where they are kept, but folders",
	},
	{
		folder:  "aggregator/alert",
		std:     append([]string{"bytes", "context", "crypto/hmac", "crypto/rand", "crypto/sha256", "encoding/base64", "encoding/json", "io", "net", "net/http", "net/netip", "net/url", "sync/atomic", "syscall", "unicode"}, pureStd...),
		project: []string{"aggregator", "fault", "internal/ddb", "internal/guard", "internal/lock", "internal/problem", "internal/schema", "internal/table"},
		others:  []string{sdk + "/service/dynamodb"},
		reason:  "it sends what others decided and stored, and decides no alert",
	},
	{
		folder:  "internal/trail",
		std:     append([]string{"crypto/rand", "encoding/binary", "encoding/json", "hash/fnv", "unicode"}, pureStd...),
		project: []string{"audit", "internal/schema"},
		others:  []string{sdk + "/service/dynamodb/types"},
		reason:  "what is recorded about a change is a value: whoever makes the change writes it, with the change",
	},
	{
		folder:  "internal/table",
		std:     append([]string{"context", "iter"}, pureStd...),
		project: []string{"internal/ddb", "fault", "internal/guard", "internal/problem", "internal/schema"},
		others:  []string{sdk, "github.com/aws/smithy-go", "golang.org/x/sync"},
		reason:  "how items are read and changed, whatever they mean, so that limiter and administration read alike",
	},
	{
		folder: "admin",
		project: []string{
			".", "audit", "internal/config", "internal/trail", "internal/ddb", "internal/guard", "internal/legacy", "internal/lock", "fault", "internal/problem", "internal/schema", "internal/shared", "internal/table", "sources",
		},
		others: []string{sdk},
		reason: "administration of what a Repository is bound to: no call of a limiter passes here",
	},
	{
		folder:  "console",
		project: []string{".", "admin", "aggregator", "audit", "internal/notation", "prices"},
		reason:  "pages of what the public packages read: whatever it can show, a program can read too",
	},
	{
		folder:  "internal/notation",
		std:     append([]string{"regexp"}, pureStd...),
		project: []string{".", "internal/calendar"},
		reason:  "limits as text, for the command line and the console",
	},
	{
		folder:  "internal/shared",
		project: []string{"audit", "internal/trail", "internal/ddb", "internal/legacy", "fault", "internal/problem", "internal/schema", "internal/table"},
		reason:  "what a Repository and package admin have in common: handed over, never kept",
	},
	{
		folder:  "internal/layout",
		std:     append([]string{"context", "log/slog", "sync/atomic"}, pureStd...),
		project: []string{"internal/ddb", "fault", "internal/schema", "internal/table"},
		reason:  "whoever reads a table's items, limiter, administrator or reader of usage, judges its version record alike",
	},
	{
		folder:  "internal/legacy",
		std:     append([]string{"context", "crypto/rand", "iter"}, pureStd...),
		project: []string{"internal/ddb", "internal/guard", "internal/plan", "fault", "internal/problem", "internal/schema", "internal/table"},
		others:  []string{sdk},
		reason:  "it turns items of an older layout by the table that it is given; it knows neither limiters nor who administers them",
	},
	{
		folder:  "internal/lock",
		std:     append([]string{"context", "crypto/rand"}, pureStd...),
		project: []string{"internal/ddb", "fault", "internal/guard", "internal/problem", "internal/schema", "internal/table"},
		others:  []string{sdk + "/service/dynamodb/types"},
		reason:  "who is alone at something is decided from a lease and a time; what is done meanwhile is not its business",
	},
	{
		folder: "fault",
		std:    []string{"errors", "fmt", "math", "time"},
		reason: "errors that limiter, budget and guard return alike are values that know none of the three",
	},
	{
		folder: "audit",
		std:    []string{"encoding/json", "time"},
		reason: "what is recorded is a value, whoever made the change and whoever reads of it",
	},
	{
		folder:  "httplimit",
		std:     append([]string{"bufio", "context", "crypto/sha256", "encoding/hex", "encoding/json", "io", "log/slog", "net", "net/http", "net/netip"}, pureStd...),
		project: []string{".", "fault", "internal/httpcopy", "internal/origin", "internal/problem", "internal/refusal", "internal/schema"},
		reason:  "a middleware of net/http alone: routers and budgets are its users' own",
	},
	{
		folder: "internal/origin",
		std:    []string{"iter", "net/netip", "strings"},
		reason: "who is trusted to name a caller's address is the same over every protocol",
	},
	{
		folder: "internal/httpcopy",
		std:    []string{"net/http", "strings"},
		reason: "every handler that hands on a copy of a request gives the same fields back",
	},
	{
		folder:  "internal/refusal",
		std:     []string{"context", "errors", "fmt", "strconv", "time"},
		project: []string{".", "internal/problem"},
		reason:  "what a caller who is not served may be told is the same over every protocol, and knows none",
	},
	{
		folder:  "internal/problem",
		std:     []string{"context", "errors", "fmt", "iter", "math", "reflect", "regexp", "strconv", "time", "unicode/utf8"},
		project: []string{"fault"},
		reason:  "what all packages do about arguments and errors needs none of them",
	},
	{
		folder: "internal/house",
		std:    []string{},
		reason: "tests of how the source is cut, which ship nothing",
		tests:  true,
	},
	{
		folder: "internal/house/ratchet",
		reason: "figures that may only fall; it imports the standard library alone",
	},
	{
		folder:  "internal/house/prose",
		project: []string{"internal/house/ratchet"},
		reason:  "a tool that counts how natural the text of the source is; nothing imports it",
	},
	{
		folder:  "internal/house/measures",
		project: []string{"internal/house/ratchet"},
		reason:  "a tool that counts how much of the limiter runs for a call; nothing imports it",
	},
	{
		folder:  "internal/house/measures/calls",
		std:     []string{"context", "errors", "flag", "fmt", "os", "path/filepath", "runtime/coverage", "testing", "testing/synctest"},
		project: []string{".", "ddbmem"},
		reason:  "the program whose coverage command measures counts",
		tests:   true,
	},
	{
		folder: "internal/laws",
		std: append([]string{
			"bytes", "context", "encoding/binary", "encoding/json", "math/rand/v2", "net/http", "os", "reflect", "regexp", "runtime", "sync/atomic", "syscall", "testing", "testing/synctest",
		}, pureStd...),
		project: []string{
			".", "admin", "ddbmem", "internal/backlog", "internal/bucket", "internal/call", "internal/config", "internal/ddb", "internal/guard", "internal/lane", "internal/plan", "internal/schema", "internal/store", "internal/testworld",
		},
		others: []string{sdk, testify},
		reason: "the harness of TestLaws, which plays limiters from outside and judges them from within: for tests, so that nothing that ships may import it",
		tests:  true,
	},
	{
		folder: "internal/testworld",
		std: append([]string{
			"bytes", "context", "encoding/json", "flag", "io", "math/rand/v2", "net", "net/http", "net/http/httptrace", "os", "path/filepath", "regexp", "sync/atomic", "testing",
		}, pureStd...),
		project: []string{"ddbmem", ".", "admin", "aggregator", "internal/schema", "leanddb"},
		others:  []string{sdk, testify},
		reason:  "what tests of several packages have in common; nothing that ships imports it",
		tests:   true,
	},
	{
		folder:  "internal/laws/rules",
		std:     append([]string{"context", "regexp"}, pureStd...),
		project: []string{"internal/lane", "internal/schema"},
		others:  []string{sdk + "/service/dynamodb/types"},
		reason:  "it changes what a lane sends, whoever owns the lane: the limiter's own tests use it, which cannot import what imports the limiter",
		tests:   true,
	},
	{
		folder: "internal/mutants",
		reason: "a tool that changes copies of the source; nothing imports it, and it imports the standard library alone",
	},
	{
		folder: "internal/release",
		reason: "a tool that packs what scripts/release.sh builds; nothing imports it, and it imports the standard library alone",
	},
	{
		folder:  "dynalimittest",
		std:     []string{"context", "errors", "maps", "net", "net/http", "sync", "sync/atomic", "testing", "time"},
		project: []string{".", "admin", "ddbmem", "observe"},
		others:  []string{sdk + "/service/dynamodb"},
		reason:  "it gives the tests of users what a user has, so it imports what a user can; nothing that ships imports it",
		tests:   true,
	},
	{
		folder: "ddbmem",
		others: []string{sdk, "github.com/aws/smithy-go", "github.com/hashicorp/golang-lru/v2"},
		reason: "it knows DynamoDB and not its users, or it would confirm their mistakes",
	},
	{
		folder:  "keeper/budget",
		project: []string{"keeper/internal/background", "keeper/internal/calendar", "keeper/internal/ledger", "keeper/internal/store", "audit", "internal/trail", "internal/cache", "internal/ddb", "internal/guard", "internal/money", "fault", "internal/problem", "prices"},
		others:  []string{sdk, "github.com/aws/smithy-go", "golang.org/x/sync", "github.com/gofrs/flock", "github.com/hashicorp/golang-lru/v2"},
		reason:  "budgets work without the limiter, and the limiter without budgets",
	},
	{
		folder:  "prices",
		std:     append([]string{"embed", "encoding/json", "io", "math/big", "path", "regexp"}, pureStd...),
		project: []string{"fault", "internal/problem"},
		reason:  "what calls cost is a value that limits on money and keepers share: it knows neither, and asks nobody",
	},
	{
		folder:  "keeper/pricefeed",
		std:     append([]string{"context", "io", "log/slog", "math/rand/v2", "net/http", "net/url", "os"}, pureStd...),
		project: []string{"keeper/budget", "prices", "fault", "internal/guard", "internal/problem"},
		reason:  "it fetches lists for a keeper, from files and URLs",
	},
	{
		folder: "keeper/credentials",
		std: append([]string{
			"bytes", "context", "crypto/aes", "crypto/cipher", "crypto/ed25519", "crypto/hkdf", "crypto/hmac", "crypto/rand", "crypto/sha256", "crypto/subtle",
			"encoding/base64", "encoding/hex", "encoding/json", "io", "log/slog", "os", "regexp", "sync/atomic",
		}, pureStd...),
		project: []string{"keeper/internal/store", "audit", "internal/trail", "internal/cache", "internal/ddb", "fault", "internal/guard", "internal/problem"},
		others:  []string{sdk},
		reason:  "who may log in, with the cryptography of the standard library alone: it knows no keeper, token format or hash of another system",
	},
	{
		folder:  "keeper/budgetclient",
		std:     append([]string{"context", "crypto/rand", "encoding/json", "io", "iter", "log/slog", "math/rand/v2", "mime", "net", "net/http", "net/url", "regexp"}, pureStd...),
		project: []string{"keeper/budget", "keeper/credentials", "prices", "internal/money", "internal/ddb", "fault", "internal/problem"},
		reason:  "a client over HTTP with the standard library alone: services without access to DynamoDB make no request of it",
	},
	{
		folder:  "keeper/budgethttp",
		project: []string{".", "audit", "fault", "internal/cache", "internal/ddb", "internal/guard", "internal/bookkeeping", "internal/httpcopy", "internal/money", "internal/origin", "internal/problem", "internal/trail", "keeper/budget", "keeper/credentials", "prices"},
		others:  []string{sdk, "github.com/danielgtaylor/huma/v2", "github.com/golang-jwt/jwt/v5", "github.com/hashicorp/golang-lru/v2", "golang.org/x/crypto"},
		reason:  "REST over a keeper; the limiter counts failed logins",
	},
	{
		folder: "keeper/secretsmanager",
		others: []string{sdk},
		reason: "a source of keys, which knows the service of AWS alone",
	},
	{
		folder:  "keeper/keeperotel",
		project: []string{"keeper/budget"},
		others:  []string{"go.opentelemetry.io/otel"},
		reason:  "measures a keeper by its exported methods",
	},
	{
		folder:  "keeper/serve",
		project: []string{".", "admin", "ddbmem", "fault", "internal/origin", "internal/yamlfile", "keeper/budget", "keeper/budgethttp", "keeper/credentials", "keeper/pricefeed", "prices"},
		others:  []string{sdk},
		reason:  "serves with tables, keys and prices that it is given: it owns the process's listeners and its end",
	},
	{
		folder: "keeper/internal/fixture",
		std: append([]string{
			"context", "encoding/json", "io", "math/rand/v2", "net", "net/http", "os", "sync/atomic", "syscall", "testing",
		}, pureStd...),
		project: []string{"ddbmem"},
		others:  []string{sdk},
		reason:  "what the tests of budgets share: they are inside their packages, so that it may know none of them",
		tests:   true,
	},
	{
		folder: "keeper/internal/background",
		std:    []string{"context", "sync"},
		reason: "what closing waits for, whoever began it",
	},
	{
		folder:  "keeper/internal/calendar",
		std:     []string{"time"},
		project: []string{"internal/calendar"},
		reason:  "days take time as an argument, so that every zone can be walked through",
	},
	{
		folder: "internal/calendar",
		std:    []string{"fmt", "slices", "strings", "sync", "time", "time/tzdata"},
		reason: "windows of a calendar take time as an argument, so that every zone can be walked through",
	},
	{
		folder: "keeper/internal/ledger",
		project: []string{
			"keeper/internal/background", "keeper/internal/calendar", "internal/guard", "internal/money", "keeper/internal/store", "internal/ddb", "fault", "internal/problem",
		},
		others: []string{sdk, "github.com/hashicorp/golang-lru/v2"},
		reason: "what is counted and held: it takes a clock and a store, returns values, and knows no keeper, price or configuration",
	},
	{
		folder: "internal/yamlfile",
		others: []string{"go.yaml.in/yaml/v3"},
		reason: "fills values from the text of a file",
	},
	{
		folder: "internal/money",
		std:    []string{"errors", "math", "math/big", "math/bits"},
		reason: "exact arithmetic, so that every sum can be checked against math/big",
	},
	{
		folder:  "keeper/internal/store",
		project: []string{"internal/guard", "internal/money", "internal/ddb", "fault", "internal/problem"},
		others:  []string{sdk, "golang.org/x/sync"},
		reason:  "how the two tables are asked, whatever is in them: it knows no organisation, counter or hold",
	},
	{
		folder:  "llm",
		project: []string{".", "prices", "internal/ddb", "internal/guard", "internal/money", "fault", "internal/problem", "internal/schema"},
		reason:  "one call under a lease and a budget, whose keeper it sees through an interface of its own; it checks names before it takes anything, backs off as all do, and sums money exactly",
	},
	{
		folder: "llm/llmhttp",
		std: append([]string{
			"bufio", "compress/flate", "compress/gzip", "compress/zlib", "context", "crypto/sha256", "io", "log/slog", "maps",
			"math/rand/v2", "net/http", "net/http/httptrace", "path", "sync/atomic",
		}, pureStd...),
		project: []string{".", "prices", "llm", "llm/llmhttp/internal/dialect", "llm/llmhttp/internal/jsonscan", "llm/llmhttp/internal/mark", "fault", "internal/guard", "internal/problem", "internal/refusal", "internal/schema"},
		reason:  "calls on their way to a provider, with net/http alone: no SDK reaches who uses another",
	},
	{
		folder:  "llm/llmhttp/internal/dialect",
		std:     append([]string{"encoding/base64", "encoding/json", "net/http", "net/url", "path"}, pureStd...),
		project: []string{"llm/llmhttp/internal/framing", "llm/llmhttp/internal/jsonscan", "internal/problem"},
		reason:  "what is on the wire, as tables: it sends nothing and knows no limit",
	},
	{
		folder:  "llm/llmhttp/internal/mark",
		std:     []string{"crypto/aes", "crypto/cipher", "crypto/rand", "encoding/asn1", "encoding/base64", "encoding/json", "errors", "strings", "time"},
		project: []string{".", "prices", "llm"},
		reason:  "errors as sealed texts: it knows no answer and no SDK",
	},
	{
		folder: "llm/llmhttp/internal/jsonscan",
		std:    []string{"encoding/binary", "errors", "fmt", "math/bits", "strconv", "strings", "unicode/utf16", "unicode/utf8"},
		reason: "it reads JSON and knows nothing of whose",
	},
	{
		folder: "llm/llmhttp/internal/framing",
		std:    []string{"bytes", "encoding/binary", "errors", "hash/crc32", "io"},
		reason: "how bytes are cut into events, whoever sends them and whatever is in them",
	},
	{
		folder: "llm/llmtest",
		std: append([]string{
			"compress/gzip", "context", "encoding/base64", "encoding/binary", "encoding/json", "hash/crc32", "io", "net/http", "net/http/httptest", "net/http/httptrace", "net/url", "testing",
		}, pureStd...),
		reason: "a provider knows nothing of who counts what it answers, or it would confirm his mistakes; nothing that ships imports it",
		tests:  true,
	},
	{
		folder:  "prices/internal/catalogtable",
		project: []string{"prices"},
		reason:  "it writes the table of prices that the package embeds",
	},
	{
		folder:  "scripts/clients",
		project: []string{".", "admin", "ddbmem", "llm", "llm/llmhttp", "llm/llmtest", "prices"},
		others:  []string{sdk},
		reason:  "a gateway for the clients of other languages, which calls what a service calls",
		tests:   true,
	},
	{
		folder:  "examples",
		project: []string{".", "admin", "ddbmem"},
		others:  []string{sdk, "golang.org/x/sync"},
		reason:  "they show what a user can do, so they import what a user can",
		future:  true,
	},
}

// TestImportTable reads the source itself rather than asking the go command, so
// that the test cache sees every file the verdict depends on.
func TestImportTable(t *testing.T) {
	covered := map[string]bool{}
	for folder, imports := range shippedImports(t) {
		row, ok := rowOf(folder)
		if !assert.True(t, ok, "%s has no row in importTable: add one with the reason for what it may import", folder) {
			continue
		}
		covered[row.folder] = true
		for _, imported := range imports {
			assert.False(t, within(imported, sdk+"/config") && folder != "awsclient", "%s imports %q, which awsclient alone may", folder, imported)
			if of, ok := rowOf(strings.TrimPrefix(imported, module+"/")); ok && within(imported, module) {
				assert.True(t, row.tests || !of.tests, "%s imports %q, which is for tests", folder, imported)
			}
			assert.True(t, row.allows(imported), "%s imports %q, which its row does not allow: %s", folder, imported, row.reason)
		}
	}
	for _, row := range importTable {
		assert.NotEmpty(t, row.reason, row.folder)
		assert.True(t, covered[row.folder] || row.future, "%s has a row in importTable and no code", row.folder)
	}
}

// What each kind of row refuses: folders of the module, other modules, and the standard library.
func TestImportTableRefuses(t *testing.T) {
	for _, forbidden := range [][2]string{
		{".", module + "/ddbmem"},
		{".", testify + "/require"},
		{".", "testing"},
		{"internal/bucket", "time"},
		{"internal/bucket", sdk + "/aws"},
		{"internal/lane", module},
		{"internal/lane", module + "/internal/laws/rules"},
		{"internal/schema", sdk + "/service/dynamodb"},
		{"ddbmem/internal/expr", module + "/internal/schema"},
		{"httplimit", "github.com/go-chi/chi/v5"},
		{"llm", module + "/keeper/budget"},
	} {
		row, ok := rowOf(forbidden[0])
		require.True(t, ok)
		assert.False(t, row.allows(forbidden[1]), "%s must not import %s", forbidden[0], forbidden[1])
	}
}

// TestRootPullsOnlyItsModules lists every module whose code ends up in a binary
// that imports the root package.
func TestRootPullsOnlyItsModules(t *testing.T) {
	allowed := []string{module, sdk, "github.com/aws/smithy-go", "golang.org/x/sync", "github.com/hashicorp/golang-lru/v2"}

	modules := map[string]bool{}
	for _, dependency := range dependencies(t) {
		assert.NotEqual(t, "testing", dependency.ImportPath, "testing registers its flags in the user's binary")
		if dependency.Module != nil {
			modules[dependency.Module.Path] = true
		}
	}
	require.True(t, modules[module], "the list of dependencies")
	for pulled := range modules {
		assert.True(t, slices.ContainsFunc(allowed, func(m string) bool { return within(pulled, m) }),
			"the root package pulls in %s: its users would have to carry it", pulled)
	}
}

// within reports whether p is parent or lies below it.
func within(p, parent string) bool {
	return p == parent || strings.HasPrefix(p, parent+"/")
}

// rowOf is the most specific row for folder.
func rowOf(folder string) (row importRow, ok bool) {
	for _, r := range importTable {
		if within(folder, r.folder) && len(r.folder) >= len(row.folder) {
			row, ok = r, true
		}
	}
	return row, ok
}

func (r importRow) allows(imported string) bool {
	in := func(parents []string) bool {
		return slices.ContainsFunc(parents, func(p string) bool { return within(imported, p) })
	}
	switch first, _, _ := strings.Cut(imported, "/"); {
	case imported == module:
		return slices.Contains(r.project, ".")
	case within(imported, module):
		folder := strings.TrimPrefix(imported, module+"/")
		return r.folder != "." && within(folder, r.folder) ||
			slices.ContainsFunc(r.project, func(p string) bool { return within(folder, p) })
	case strings.Contains(first, "."):
		return in(r.others)
	case imported == "testing" || within(imported, "testing"):
		return slices.Contains(r.std, imported) // never by leave to import all of std
	default: // a slice of names, not of parents: "math" does not allow "math/rand"
		return r.std == nil || slices.Contains(r.std, imported)
	}
}

// shippedImports maps every folder of this module to what its code imports
// outside tests, and the keeper's. Other folders with a go.mod are modules of their own.
func shippedImports(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	err := filepath.WalkDir(".", func(folder string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		name := entry.Name()
		if folder != "." && (name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")) {
			return filepath.SkipDir
		}
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil && folder != "." && folder != "keeper" {
			return filepath.SkipDir
		}
		pkg, err := build.ImportDir(folder, 0)
		var none *build.NoGoError
		if errors.As(err, &none) {
			return nil
		}
		if err == nil && len(pkg.GoFiles) > 0 {
			all[filepath.ToSlash(folder)] = pkg.Imports
		}
		return err
	})
	require.NoError(t, err)
	require.Contains(t, all, ".", "the root package's folder")
	return all
}

// dependency is the part of `go list -json` that matters here.
type dependency struct {
	ImportPath string
	Module     *struct{ Path string }
}

// dependencies is the root package and everything it imports, at any depth.
func dependencies(t *testing.T) []dependency {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=ImportPath,Module", ".").Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		require.NoError(t, err, string(failed.Stderr))
	}
	require.NoError(t, err)

	var all []dependency
	for decoder := json.NewDecoder(strings.NewReader(string(out))); decoder.More(); {
		var d dependency
		require.NoError(t, decoder.Decode(&d))
		all = append(all, d)
	}
	return all
}
