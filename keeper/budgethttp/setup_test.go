package budgethttp

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/keeper/internal/fixture"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	orgO     = fixture.OrgO
	orgOther = "550e8400-e29b-41d4-a716-446655440001" // exists too
	orgNone  = "550e8400-e29b-41d4-a716-44665544ffff" // does not
	appA     = fixture.AppA
	appB     = fixture.AppB

	premiumModel  = fixture.PremiumModel
	standardModel = fixture.StandardModel
	economyModel  = fixture.EconomyModel
	microModel    = fixture.MicroModel
)

var (
	pathA = "/api/v1/orgs/" + orgO + "/apps/" + appA
	pathB = "/api/v1/orgs/" + orgO + "/apps/" + appB
	pathO = "/api/v1/orgs/" + orgO

	fixtureNow    = fixture.Now
	fixtureModels = map[string]string{
		"premium": premiumModel, "standard": standardModel, "economy": economyModel, "micro": microModel, "none": "nobody.knows-this",
	}

	uuid     = fixture.UUID
	together = fixture.Together
)

func fixtureOrg() budget.Org {
	return budget.Org{
		ID: orgO, Name: "sample", Timezone: "America/New_York", Scope: budget.ScopeApp,
		Ordering: []string{"premium", "standard", "economy"},
		Quotas:   map[string]int64{"premium": 10_000_000, "standard": 5_000_000, "economy": 2_000_000},
	}
}

// call is U(n): 1,500 in and 800 out of premium, 16,500 µ$.
func call(n int) example {
	return example{
		"request_id": uuid(n), "model_label": "premium", "model_id": premiumModel,
		"tokens": example{"input": 1500, "output": 800}, "status": "OK", "timestamp": fixtureNow.Format(time.RFC3339),
	}
}

// but is a body with other values.
func (e example) but(values example) example {
	out := example{}
	for k, v := range e {
		out[k] = v
	}
	for k, v := range values {
		if v == nil {
			delete(out, k)
			continue
		}
		out[k] = v
	}
	return out
}
