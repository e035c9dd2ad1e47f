package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

// server is a `dynalimit local` under test.
type server struct {
	url  string
	stop func() (code int, stdout string) // as Ctrl-C does
}

var address = regexp.MustCompile(`http://\S+`)

// serve starts `dynalimit local` with args and returns when it has printed where
// it listens.
func serve(t *testing.T, args ...string) server {
	t.Helper()
	ctx, interrupt := context.WithCancel(t.Context())
	read, write := io.Pipe()
	codes := make(chan int, 1)
	go func() {
		codes <- run(ctx, append([]string{"local"}, args...), &term.Output{Writer: write}, t.Output())
		write.Close()
	}()
	lines := bufio.NewReader(read)
	first, err := lines.ReadString('\n')
	require.NoError(t, err, "the banner")
	rest := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(lines)
		rest <- first + string(text)
	}()

	var code int
	var stdout string
	stopped := false
	stop := func() (int, string) {
		if !stopped {
			stopped = true
			interrupt()
			code, stdout = <-codes, <-rest
		}
		return code, stdout
	}
	t.Cleanup(func() { stop() })
	return server{address.FindString(first), stop}
}

// client is the Go snippet of the banner, with connections of its own.
func client(t *testing.T, url, region string) *dynamodb.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return dynamodb.New(dynamodb.Options{
		BaseEndpoint: aws.String(url),
		Region:       region,
		Credentials:  credentials.NewStaticCredentialsProvider("any", "thing", ""),
		HTTPClient:   &http.Client{Transport: transport},
	})
}

func createTable(t *testing.T, c *dynamodb.Client, name string) {
	t.Helper()
	_, err := c.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName:            aws.String(name),
		BillingMode:          types.BillingModePayPerRequest,
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeS}},
	})
	require.NoError(t, err)
}

func TestLocalServesTheSDK(t *testing.T) {
	s := serve(t, "--port", "0")
	c := client(t, s.url, "us-east-1")
	createTable(t, c, "limits")

	item := map[string]types.AttributeValue{
		"id":     &types.AttributeValueMemberS{Value: "gpt"},
		"tokens": &types.AttributeValueMemberN{Value: "100000"},
	}
	_, err := c.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("limits"), Item: item})
	require.NoError(t, err)

	// Another process, region and HTTP connection see the same table.
	got, err := client(t, s.url, "eu-central-1").GetItem(t.Context(), &dynamodb.GetItemInput{
		TableName: aws.String("limits"),
		Key:       map[string]types.AttributeValue{"id": item["id"]},
	})
	require.NoError(t, err)
	assert.Equal(t, item, got.Item)

	code, stdout := s.stop()
	assert.Equal(t, exitOK, code)
	assert.Contains(t, stdout, "Stopped after 3 requests")
}

func TestLocalGivesItsPortBack(t *testing.T) {
	s := serve(t, "--port", "0")
	u, err := url.Parse(s.url)
	require.NoError(t, err)
	s.stop()

	again := serve(t, "--port", u.Port())
	assert.Equal(t, s.url, again.url)
	createTable(t, client(t, again.url, "us-east-1"), "limits") // nothing is left of the first
}

func TestLocalListensByName(t *testing.T) {
	s := serve(t, "--host", "localhost", "--port", "0")
	createTable(t, client(t, s.url, "us-east-1"), "limits")
}

func TestLocalPortInUse(t *testing.T) {
	var config net.ListenConfig
	taken, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	_, port, err := net.SplitHostPort(taken.Addr().String())
	require.NoError(t, err)

	code, stdout, stderr := runPlain(t, "local", "--port", port)
	assert.Equal(t, exitFailed, code)
	assert.Empty(t, stdout)
	assert.Contains(t, stderr, "port "+port)
	assert.Contains(t, stderr, "in use")
	assert.Contains(t, stderr, "--port")
}
