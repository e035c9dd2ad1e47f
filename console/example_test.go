package console_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/console"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// The console of a service, behind its login: a team lead sees his team.
func Example() {
	db := ddbmem.New()
	defer db.Close()
	repo, _ := dynalimit.NewRepository(db.Client(), "limits", nil)
	_ = repo.CreateTable(context.Background())
	mux := http.NewServeMux()
	if err := mount(mux, repo, db.Client()); err != nil {
		fmt.Println(err)
		return
	}
	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "http://admin.example/limits/", nil))
	fmt.Println(answer.Code, answer.Header().Get("Location"))
	// Output: 303 /limits/entity/search
}

func mount(mux *http.ServeMux, repo *dynalimit.Repository, client aggregator.ReaderClient) error {
	usage, err := aggregator.NewReader(client, "limits", nil)
	if err != nil {
		return err
	}
	handler, err := console.New(repo, usage, &console.Options{
		Prefix: "/limits/",
		Hosts:  []string{"admin.example"},
		Authorize: func(r *http.Request) (console.Access, error) {
			user, ok := login(r)
			if !ok || user.Team == "" { // an empty Under shows all entities
				return console.Access{}, console.ErrLogin
			}
			return console.Access{Principal: user.Mail, Under: user.Team}, nil
		},
	})
	if err != nil {
		return err
	}
	mux.Handle("/limits/", handler)
	return nil
}

// login is that of the service.
func login(*http.Request) (user struct{ Mail, Team string }, ok bool) {
	user.Mail, user.Team = "ann@example.com", "search"
	return user, true
}
