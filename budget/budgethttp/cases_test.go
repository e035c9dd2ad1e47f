package budgethttp

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// cases are the tests of the acceptance cases, over HTTP: two nodes on the same tables, on
// every engine, without faults and with. Package budget has them of the library.
var cases = map[string][]string{
	"A1": {"TestCaseA1ExactCost"},
	"A2": {"TestCaseA2NoRoundingLeak"},
	"A3": {"TestCaseA3TokenClassesAreDisjoint"},
	"A4": {"TestCaseA4PriceFollowsTheEventsDate"},
	"A5": {"TestCaseA5ScopePrefixMatters"},
	"A6": {"TestCaseA6UnknownPriceFailsClosed"},
	"A7": {"TestCaseA7ClientCannotChooseACheaperPrice"},

	"B8":  {"TestCaseB8ReplayIsANoOp"},
	"B10": {"TestCaseB10SameIDDifferentBody"},
	"B12": {"TestCaseB12NoLostUpdates"},
	"B13": {"TestCaseB13VolumePastTheWall", "TestCaseB13VolumeInBatches"},
	"B15": {"TestCaseB15LateAndEarlyTimestamps"},
	"B16": {"TestCaseB16Batch"},
	"B18": {"TestCaseB18UnprocessedKeysAreNotZeros", "TestCaseB18MissingPagesAreNotZeros"},
	"B19": {"TestCaseB19NoFixedListOfScopes"},

	"C20": {"TestCaseC20ThresholdsAreExact"},
	"C21": {"TestCaseC21UsageReplyDrivesTheSwitch"},
	"C22": {"TestCaseC22ChainWalksPastAnExceededStickyLabel"},
	"C23": {"TestCaseC23AllExceeded"},
	"C25": {"TestCaseC25QuotaRaisedMidDay"},
	"C27": {"TestCaseC27QuotaOfZeroAndMissingQuota"},
	"C28": {"TestCaseC28ScopeDecidesWhoseSpendBinds"},
	"C31": {"TestCaseC31OvershootBound"},

	"D32": {"TestCaseD32Rollover"},
	"D34": {"TestCaseD34ZoneAndScopeAreFixed"},

	"E35": {"TestCaseE35TokenLifecycle", "TestCaseE35BadTokensAreAllAlike"},
	"E36": {"TestCaseE36Revocation", "TestCaseE36TokensFailClosed"},
	"E38": {"TestCaseE38Rotation", "TestCaseE38ConcurrentRotations"},
}

// alone is what runs on ddbmem alone, beside another test of its case.
var alone = []string{"TestCaseB13VolumeInBatches"}

// Every case has a test, every test of a case is in the table, and all run on every engine.
func TestEveryCaseHasATest(t *testing.T) {
	const list = "A1 A2 A3 A4 A5 A6 A7 B8 B10 B12 B13 B15 B16 B18 B19 C20 C21 C22 C23 C25 C27 C28 C31 D32 D34 E35 E36 E38"
	assert.ElementsMatch(t, strings.Fields(list), slices.Collect(maps.Keys(cases)))

	everywhere := map[string]bool{} // test → runs on every engine
	files, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, "TestCase") {
				everywhere[f.Name.Name] = callsEngines(f)
			}
		}
	}
	var listed []string
	for id, tests := range cases {
		assert.NotEmpty(t, tests, id)
		for _, name := range tests {
			assert.Regexp(t, "^TestCase"+id+"[A-Z]", name)
			assert.True(t, everywhere[name] || slices.Contains(alone, name), "%s: %s does not run on every engine", id, name)
		}
		listed = append(listed, tests...)
	}
	assert.ElementsMatch(t, slices.Collect(maps.Keys(everywhere)), listed)
}

// callsEngines reports whether a test runs on every engine.
func callsEngines(f *ast.FuncDecl) (calls bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			switch fun := call.Fun.(type) {
			case *ast.Ident:
				calls = calls || fun.Name == "engines"
			case *ast.SelectorExpr:
				calls = calls || fun.Sel.Name == "Engines"
			}
		}
		return true
	})
	return calls
}
