package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit/ddbmem"
)

// backups is DynamoDB with what ddbmem leaves out: tags of tables, and backups, of which it
// keeps the names.
type backups struct {
	*ddbmem.DB
	now func() time.Time

	mu   sync.Mutex
	tags map[string][]tag // of a table's ARN
	made []map[string]any // as they are described
}

type tag struct{ Key, Value string }

// withBackups gives the shell's engine tags and backups.
func (s *shell) withBackups() *shell {
	server := httptest.NewServer(&backups{DB: s.db, now: s.clock, tags: map[string][]tag{}})
	s.t.Cleanup(server.Close)
	s.endpoint = server.URL
	return s
}

// ServeHTTP answers what concerns tags and backups, and leaves the rest to the engine.
func (a *backups) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	switch operation {
	case "TagResource", "ListTagsOfResource", "CreateBackup", "DescribeBackup", "ListBackups":
	default:
		a.DB.ServeHTTP(w, r)
		return
	}
	var in struct {
		ResourceArn, TableName, BackupName string
		Tags                               []tag
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	answer := map[string]any{}
	switch operation {
	case "TagResource":
		a.tags[in.ResourceArn] = append(a.tags[in.ResourceArn], in.Tags...)
	case "ListTagsOfResource":
		answer["Tags"] = a.tags[in.ResourceArn]
	case "CreateBackup":
		a.made = append(a.made, map[string]any{
			"TableName": in.TableName, "BackupName": in.BackupName, "BackupStatus": "AVAILABLE", "BackupCreationDateTime": a.now().Unix(),
			"BackupArn": fmt.Sprintf("arn:aws:dynamodb:us-east-1:000000000000:table/%s/backup/%014d", in.TableName, a.now().UnixMilli()),
		})
		answer["BackupDetails"] = a.made[len(a.made)-1]
	case "DescribeBackup": // the newest
		answer["BackupDescription"] = map[string]any{"BackupDetails": a.made[len(a.made)-1]}
	case "ListBackups":
		answer["BackupSummaries"] = a.made
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	_ = json.NewEncoder(w).Encode(answer)
}
