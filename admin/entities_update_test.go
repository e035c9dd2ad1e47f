package admin_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/audit"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/shared"
)

// Each of many records is changed as it would be alone, with its event and its error.
func TestUpdateEntities(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.repository(t, nil)
		create(t, r, setupsOf(120, ""))
		require.NoError(t, admin.New(r).Entities.Create(t.Context(), admin.Entity{ID: "org"}))
		put(t, r, schema.EntityRecord{ID: "going", Version: 1, Deleting: true}.Item(shared.Of(r).Keys, nil))
		entities := must(t)(admin.New(r).Entities.GetMany(t.Context(), idsOf(setupsOf(120, ""))))
		entities = append(entities, admin.Entity{ID: "nobody"}, admin.Entity{ID: "going", Version: 1})
		for i := range entities {
			entities[i].Plan, entities[i].ManagedBy = "pro", applier
		}
		entities[1].Plan, entities[1].ManagedBy = "", "" // as it is
		entities[2].ParentID = "org"
		entities[3].ParentID = "key-00003-x" // which needs no record
		entities[50].Version = 7
		entities[51].CreatedAt = entities[51].CreatedAt.Add(time.Hour)
		entities[52].ParentID, entities[53].ParentID = "key-00053", "key-00052" // a cycle: one of them
		errs, err := admin.New(r).Entities.UpdateMany(t.Context(), entities)
		require.NoError(t, err)
		require.Len(t, errs, len(entities))
		now := must(t)(admin.New(r).Entities.GetMany(t.Context(), idsOf(setupsOf(120, ""))))
		refused := 0
		for i, yours := range entities {
			switch i {
			case 50, 51:
				conflict, ok := errors.AsType[*admin.ConflictError[admin.Entity]](errs[i])
				require.True(t, ok, "%v", errs[i])
				assert.Equal(t, admin.ConflictError[admin.Entity]{Yours: yours, Stored: now[i]}, *conflict)
			case 120, 121:
				require.ErrorIs(t, errs[i], admin.ErrNotFound)
				continue
			case 52, 53:
				if isValidation(errs[i]) {
					refused++
					assert.Equal(t, int64(1), now[i].Version)
					continue
				}
				fallthrough
			default:
				require.NoError(t, errs[i], yours.ID)
				if yours.Version++; i == 1 {
					yours.Version--
				}
				assert.Equal(t, yours, now[i])
			}
			assert.Len(t, trail(t, r, audit.Query{Target: yours.ID}), int(now[i].Version)+1, "%s: with its limits", yours.ID)
		}
		assert.Equal(t, 1, refused, "of the cycle")

		again, err := admin.New(r).Entities.UpdateMany(t.Context(), now)
		require.NoError(t, err)
		require.NoError(t, errors.Join(again...))
		assert.Equal(t, now, must(t)(admin.New(r).Entities.GetMany(t.Context(), idsOf(setupsOf(120, "")))), "nothing differs: nothing is written")
	})
}

// Moves whose order matters are made in any case.
func TestUpdateEntitiesMovesThatDependOnEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memEngine(t)
		r := e.repository(t, nil)
		require.NoError(t, admin.New(r).Entities.Create(t.Context(), admin.Entity{ID: "a"}))
		const n = 6
		var entities []admin.Entity
		for i := range n { // a chain below a, which is turned round
			parent := "a"
			if i > 0 {
				parent = fmt.Sprint("b", i-1)
			}
			require.NoError(t, admin.New(r).Entities.Create(t.Context(), admin.Entity{ID: fmt.Sprint("b", i), ParentID: parent}))
		}
		for i := range n {
			above := admin.Entity{ID: fmt.Sprint("b", i), ParentID: fmt.Sprint("b", i+1), Version: 1}
			if i == n-1 {
				above.ParentID = ""
			}
			entities = append([]admin.Entity{above}, entities...) // the last first
		}
		e.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
			return ddbmem.Fault{After: time.Duration(q.Seq%7) * time.Millisecond}
		})
		errs, err := admin.New(r).Entities.UpdateMany(t.Context(), entities)
		require.NoError(t, err)
		require.NoError(t, errors.Join(errs...))
		for i, got := range must(t)(admin.New(r).Entities.GetMany(t.Context(), []string{"b0", "b5"})) {
			assert.Equal(t, []string{"b1", ""}[i], got.ParentID)
		}
	})
}

// Ten thousand records are changed in seconds where each request takes 5 ms; a thousand get
// another parent in a few.
func TestTenThousandUpdatesTakeSeconds(t *testing.T) {
	for name, test := range map[string]struct {
		entities int
		change   func(*admin.Entity)
		requests int64
		most     time.Duration
	}{
		"plan":   {10_000, func(e *admin.Entity) { e.Plan = "pro" }, 2*205 + 3, 3 * time.Second},
		"parent": {1000, func(e *admin.Entity) { e.ParentID = "org" }, 0, 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := memEngine(t)
				r := e.repository(t, nil)
				create(t, r, setupsOf(test.entities, ""))
				entities := must(t)(admin.New(r).Entities.GetMany(t.Context(), idsOf(setupsOf(test.entities, ""))))
				for i := range entities {
					test.change(&entities[i])
				}
				e.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{After: 5 * time.Millisecond} })
				before, start := e.db.Meter(), time.Now()
				errs, err := admin.New(r).Entities.UpdateMany(t.Context(), entities)
				require.NoError(t, err)
				require.NoError(t, errors.Join(errs...))
				took, used := time.Since(start), e.db.Meter().Sub(before)
				t.Logf("%d changes, each request 5 ms: %v, %d requests, %v write units", test.entities, took, used.Requests(), used.WriteUnits())
				assert.LessOrEqual(t, took, test.most)
				if test.requests > 0 {
					assert.Equal(t, test.requests, used.Requests())
				}
			})
		})
	}
}

// A change that others make meanwhile is a conflict of that record alone.
func TestARecordChangedMeanwhileFailsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memEngine(t)
		r := e.repository(t, nil)
		create(t, r, setupsOf(5, ""))
		entities := must(t)(admin.New(r).Entities.GetMany(t.Context(), idsOf(setupsOf(5, ""))))
		theirs := entities[2]
		theirs.Name = "theirs"
		e.db.SetFaults(between(func() { assert.NoError(t, second(admin.New(r).Entities.Update(t.Context(), theirs))) }))
		for i := range entities {
			entities[i].Plan = "pro"
		}
		errs, err := admin.New(r).Entities.UpdateMany(t.Context(), entities)
		require.NoError(t, err)
		for i, err := range errs {
			if i == 2 {
				require.ErrorIs(t, err, admin.ErrConflict)
			} else {
				require.NoError(t, err)
			}
		}
		got := must(t)(admin.New(r).Entities.GetMany(t.Context(), idsOf(setupsOf(5, ""))))
		assert.Equal(t, "theirs", got[2].Name)
		assert.Empty(t, got[2].Plan)
		assert.Equal(t, "pro", got[4].Plan)
	})
}

// Once the table does not serve, what is left fails with that error, moves too.
func TestUpdateEntitiesStopInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memEngine(t)
		r := e.repository(t, nil)
		create(t, r, setupsOf(120, ""))
		entities := must(t)(admin.New(r).Entities.GetMany(t.Context(), idsOf(setupsOf(120, ""))))
		for i := range entities {
			entities[i].Plan = "pro"
		}
		entities[3].ParentID = "org"
		writes := 0
		e.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
			if q.Operation == "TransactWriteItems" {
				writes++
			}
			return ddbmem.Fault{Drop: writes > 1}
		})
		errs, err := admin.New(r).Entities.UpdateMany(t.Context(), entities)
		require.NoError(t, err)
		e.db.SetFaults(nil)
		now := must(t)(admin.New(r).Entities.GetMany(t.Context(), idsOf(setupsOf(120, ""))))
		changed := 0
		for i, err := range errs {
			if now[i].Version == 2 {
				changed++
				assert.NoError(t, err)
			} else {
				assert.ErrorIs(t, err, dynalimit.ErrUnavailable, i)
			}
		}
		assert.Equal(t, 48, changed)
	})
}

// A move that others are in the way of, in each of its tries, is made once they are gone.
func TestMovesInEachOthersWayAreMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memEngine(t)
		r := e.repository(t, nil)
		create(t, r, setupsOf(3, ""))
		entities := must(t)(admin.New(r).Entities.GetMany(t.Context(), idsOf(setupsOf(3, ""))))
		for i := range entities {
			entities[i].ParentID = "org"
		}
		began, refused := time.Now(), 0
		e.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
			if q.Operation == "TransactWriteItems" && strings.Contains(string(q.Body), "key-00001") && refused < 8 {
				refused++
				return ddbmem.Fault{Error: &ddbmem.Error{Code: "TransactionConflictException"}}
			}
			return ddbmem.Fault{}
		})
		errs, err := admin.New(r).Entities.UpdateMany(t.Context(), entities)
		require.NoError(t, err)
		require.NoError(t, errors.Join(errs...))
		assert.Equal(t, 8, refused)
		assert.Less(t, time.Since(began), 10*time.Second)
	})
}

func TestUpdateEntitiesOfBadInput(t *testing.T) {
	r := memEngine(t).repository(t, nil)
	update := func(e ...admin.Entity) error { return second(admin.New(r).Entities.UpdateMany(t.Context(), e)) }
	assertInvalid(t, update(admin.Entity{ID: "a"}, admin.Entity{ID: "a b"}), "entities[1].entity.ID", "a b")
	assertInvalid(t, update(admin.Entity{ID: "a"}, admin.Entity{ID: "a"}), "entities[1].entity.ID", "twice")
	assertInvalid(t, update(admin.Entity{ID: "a", Version: -1}), "entities[0].entity.Version", "Entities.Get")
	assertInvalid(t, second(admin.New(r.As("")).Entities.UpdateMany(t.Context(), []admin.Entity{{ID: "a"}})), "principal", "")
	assert.NoError(t, update())
}

// A record that cannot be read is not said to be changed.
func TestUpdatesThatCannotBeReadFail(t *testing.T) {
	e := memEngine(t)
	r := e.repository(t, nil)
	entities := admin.New(r).Entities
	require.NoError(t, entities.Create(t.Context(), admin.Entity{ID: "a"}))
	e.db.SetFaults(on("BatchGetItem", ddbmem.Fault{Drop: true}))
	errs, err := entities.UpdateMany(t.Context(), []admin.Entity{{ID: "a", Name: "b", Version: 1}})
	require.NoError(t, err)
	require.ErrorIs(t, errs[0], dynalimit.ErrUnavailable)
}
