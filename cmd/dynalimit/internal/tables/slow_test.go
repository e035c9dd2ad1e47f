package tables

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// slow is DynamoDB as it is and ddbmem is not: what is made and changed takes its time, and
// meanwhile other changes are refused.
type slow struct {
	*dynamodb.Client
	busy   time.Time // until then the table is being made or changed
	making bool
	// early is until when a new table has no continuous backups.
	early time.Time
	key   *types.SSEDescription
	tags  []types.Tag
	// undeletable is what a deletion fails with; nil for none.
	undeletable error
	// updated is called after each update; nil for nothing.
	updated func()
	// blind is what looking at the table fails with, once; nil for none.
	blind   error
	refused int // changes made while the table was busy
}

func (s *slow) CreateTable(ctx context.Context, in *dynamodb.CreateTableInput, opts ...func(*dynamodb.Options)) (*dynamodb.CreateTableOutput, error) {
	with := *in
	if e := with.SSESpecification; e != nil {
		s.key = &types.SSEDescription{Status: types.SSEStatusEnabled, SSEType: e.SSEType, KMSMasterKeyArn: e.KMSMasterKeyId}
		with.SSESpecification = nil // ddbmem knows no keys
	}
	s.tags, with.Tags = with.Tags, nil // nor tags
	out, err := s.Client.CreateTable(ctx, &with, opts...)
	s.making, s.busy, s.early = true, time.Now().Add(12*time.Second), time.Now().Add(30*time.Second)
	return out, err
}

func (s *slow) TagResource(_ context.Context, in *dynamodb.TagResourceInput, _ ...func(*dynamodb.Options)) (*dynamodb.TagResourceOutput, error) {
	s.tags = append(s.tags, in.Tags...)
	return &dynamodb.TagResourceOutput{}, nil
}

func (s *slow) ListTagsOfResource(context.Context, *dynamodb.ListTagsOfResourceInput, ...func(*dynamodb.Options)) (*dynamodb.ListTagsOfResourceOutput, error) {
	return &dynamodb.ListTagsOfResourceOutput{Tags: s.tags}, nil
}

func (s *slow) DescribeTable(ctx context.Context, in *dynamodb.DescribeTableInput, opts ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error) {
	if err := s.blind; err != nil {
		s.blind = nil
		return nil, err
	}
	out, err := s.Client.DescribeTable(ctx, in, opts...)
	if err != nil {
		return out, err
	}
	out.Table.SSEDescription = s.key
	if left := time.Until(s.busy); left > 0 {
		out.Table.TableStatus = types.TableStatusUpdating
		if s.making {
			out.Table.TableStatus = types.TableStatusCreating
		}
		for i := range out.Table.GlobalSecondaryIndexes {
			if s.making && left > time.Duration(i)*4*time.Second {
				out.Table.GlobalSecondaryIndexes[i].IndexStatus = types.IndexStatusCreating
			}
		}
		return out, nil
	}
	s.making = false
	return out, nil
}

func (s *slow) UpdateTable(ctx context.Context, in *dynamodb.UpdateTableInput, opts ...func(*dynamodb.Options)) (*dynamodb.UpdateTableOutput, error) {
	if time.Until(s.busy) > 0 {
		s.refused++
		return nil, &types.ResourceInUseException{Message: aws.String("the table is being changed")}
	}
	s.busy = time.Now().Add(5 * time.Second)
	if s.updated != nil {
		defer s.updated()
	}
	with := *in
	if e := with.SSESpecification; e != nil {
		s.key = &types.SSEDescription{Status: types.SSEStatusEnabled, SSEType: e.SSEType, KMSMasterKeyArn: e.KMSMasterKeyId}
		return &dynamodb.UpdateTableOutput{}, nil
	}
	return s.Client.UpdateTable(ctx, &with, opts...)
}

func (s *slow) UpdateContinuousBackups(ctx context.Context, in *dynamodb.UpdateContinuousBackupsInput, opts ...func(*dynamodb.Options)) (*dynamodb.UpdateContinuousBackupsOutput, error) {
	if time.Until(s.early) > 0 {
		return nil, &types.ContinuousBackupsUnavailableException{Message: aws.String("being enabled")}
	}
	return s.Client.UpdateContinuousBackups(ctx, in, opts...)
}

func (s *slow) DeleteTable(ctx context.Context, in *dynamodb.DeleteTableInput, opts ...func(*dynamodb.Options)) (*dynamodb.DeleteTableOutput, error) {
	if s.undeletable != nil {
		return nil, s.undeletable
	}
	return s.Client.DeleteTable(ctx, in, opts...)
}

// inBubble runs a test on a slow DynamoDB in virtual time.
func inBubble(t *testing.T, test func(t *testing.T, s *slow, p Plan)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		db := ddbmem.New()
		defer db.Close()
		s := &slow{Client: db.Client()}
		repo, err := dynalimit.NewRepository(s, "limits", &dynalimit.RepositoryOptions{Principal: "ann"})
		require.NoError(t, err)
		test(t, s, Plan{
			Input: repo.TableInput(), TTL: "ttl", Layout: repo,
			Make: func(ctx context.Context, client Client) error {
				made, err := dynalimit.NewRepository(client, "limits", &dynalimit.RepositoryOptions{Principal: "ann"})
				if err != nil {
					return err
				}
				return made.CreateTable(ctx)
			},
		})
	})
}

var everything = Settings{Recovery: true, Protection: true, Stream: true, KMSKey: "arn:aws:kms:eu-west-1:1:key/k", Tags: map[string]string{"team": "search"}}

// TestTableThatTakesItsTime: it is made with all its settings, whoever waits is told how far
// it is, and nothing is changed while something else is.
func TestTableThatTakesItsTime(t *testing.T) {
	inBubble(t, func(t *testing.T, s *slow, p Plan) {
		began := time.Now()
		var said []string
		r, err := Create(t.Context(), s, p, everything, false, func(text string) { said = append(said, text) })
		require.NoError(t, err)
		assert.GreaterOrEqual(t, time.Since(began), 30*time.Second, "point-in-time recovery comes late")
		assert.Equal(t, []string{
			"limits is CREATING, 0 of 3 indexes can be used",
			"limits is CREATING, 1 of 3 indexes can be used",
			"limits is CREATING, 2 of 3 indexes can be used",
		}, said)
		assert.Zero(t, s.refused)
		for _, step := range r.Steps {
			assert.True(t, step.Done, "%+v", step)
		}
		assert.Equal(t, Yes, r.State.Recovery)
		assert.Equal(t, Yes, r.State.Protection)
		assert.Equal(t, everything.KMSKey, r.State.KMSKey)
		assert.True(t, r.State.Ready)

		r, err = Create(t.Context(), s, p, everything, false, func(string) {})
		require.NoError(t, err)
		assert.Empty(t, r.Steps, "a second time there is nothing to do")
	})
}

// TestTableIsCompleted: one that was made bare gets what it lacks, one change after the
// other.
func TestTableIsCompleted(t *testing.T) {
	inBubble(t, func(t *testing.T, s *slow, p Plan) {
		_, err := Create(t.Context(), s, p, Settings{}, false, func(string) {})
		require.NoError(t, err)
		r, err := Create(t.Context(), s, p, everything, true, func(string) {})
		require.NoError(t, err)
		assert.Len(t, r.Steps, 5, "%+v", r.Steps)
		before, err := Look(t.Context(), s, p)
		require.NoError(t, err)
		assert.NotEqual(t, Yes, before.Protection, "a dry run changes nothing")

		r, err = Create(t.Context(), s, p, everything, false, func(string) {})
		require.NoError(t, err)
		assert.Zero(t, s.refused)
		assert.Equal(t, Yes, r.State.Protection)
		assert.Equal(t, "NEW_AND_OLD_IMAGES", r.State.Stream)
		assert.Equal(t, map[string]string{"team": "search"}, r.State.Tags)
	})
}

// TestTableThatIsNeverReady: whoever waits is told when to give up, and can leave earlier.
func TestTableThatIsNeverReady(t *testing.T) {
	inBubble(t, func(t *testing.T, s *slow, p Plan) {
		_, err := Create(t.Context(), s, p, Settings{}, false, func(string) {})
		require.NoError(t, err)
		s.early = time.Now().Add(24 * time.Hour)
		_, err = Create(t.Context(), s, p, Settings{Recovery: true}, false, func(string) {})
		require.ErrorIs(t, err, errSlow)
		assert.ErrorContains(t, err, "run the command again")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = Create(ctx, s, p, Settings{Recovery: true}, false, func(string) {})
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

// TestProtectionComesBack: when the table could not be deleted after all.
func TestProtectionComesBack(t *testing.T) {
	inBubble(t, func(t *testing.T, s *slow, p Plan) {
		_, err := Create(t.Context(), s, p, Settings{Protection: true}, false, func(string) {})
		require.NoError(t, err)
		s.undeletable = &types.ResourceInUseException{Message: aws.String("a backup is being made")}
		err = Delete(t.Context(), s, Loss{Table: "limits", Protected: true})
		require.ErrorContains(t, err, "a backup is being made")
		state, err := Look(t.Context(), s, p)
		require.NoError(t, err)
		assert.Equal(t, Yes, state.Protection)
		s.undeletable = nil
		require.NoError(t, Delete(t.Context(), s, Loss{Table: "limits", Protected: true}))
		state, err = Look(t.Context(), s, p)
		require.NoError(t, err)
		assert.False(t, state.Exists())
	})
}

// TestProtectionComesBackWhenItsRemovalIsCutShort: by a request that fails while it comes
// into force, or by whoever waits for that.
func TestProtectionComesBackWhenItsRemovalIsCutShort(t *testing.T) {
	for name, cut := range map[string]func(*slow, context.CancelFunc){
		"failed request": func(s *slow, _ context.CancelFunc) { s.blind = errors.New("rate exceeded") },
		"Ctrl-C":         func(_ *slow, interrupt context.CancelFunc) { interrupt() },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *slow, p Plan) {
				_, err := Create(t.Context(), s, p, Settings{Protection: true}, false, func(string) {})
				require.NoError(t, err)
				ctx, interrupt := context.WithCancel(t.Context())
				defer interrupt()
				s.updated = func() { s.updated = nil; cut(s, interrupt) }
				err = Delete(ctx, s, Loss{Table: "limits", Protected: true})
				require.ErrorContains(t, err, "nothing was deleted")
				state, err := Look(t.Context(), s, p)
				require.NoError(t, err)
				assert.Equal(t, Yes, state.Protection)
				assert.Zero(t, s.refused)
			})
		})
	}
}
