// Command older is a process of an earlier version: it is built in that version's tree. It
// acquires one request for each entity that it reads, and prints "ok" or the error; a line
// "+11m" is a duration by which its clock goes on.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit"
)

// main acquires one request for each entity in a line of standard input, and prints "ok" or the error. A line
// "+11m" moves its clock on by that time. The arguments are the endpoint and the table.
func main() {
	endpoint, table := os.Args[1], os.Args[2]
	client := dynamodb.New(dynamodb.Options{BaseEndpoint: &endpoint, Region: "eu-central-1", Credentials: aws.AnonymousCredentials{}})
	ahead := time.Duration(0)
	repo, err := dynalimit.NewRepository(client, table, &dynalimit.RepositoryOptions{Now: func() time.Time { return time.Now().Add(ahead) }})
	if err != nil {
		panic(err)
	}
	limiter, err := dynalimit.New(repo, &dynalimit.Options{OnUnavailable: dynalimit.Allow})
	if err != nil {
		panic(err)
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if by, is := strings.CutPrefix(lines.Text(), "+"); is {
			d, err := time.ParseDuration(by)
			if err != nil {
				panic(err)
			}
			ahead += d
			continue
		}
		if _, err := limiter.Acquire(context.Background(), lines.Text(), "gpt-4", dynalimit.Amounts{"rpm": 1}); err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println("ok")
	}
}
