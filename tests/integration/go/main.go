// franz-go in the hands of test_go.py: one sub-command for each thing that a client does.
//
// Records come in and go out as lines, "KEY VALUE" in and "PARTITION OFFSET KEY VALUE" out.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const patience = 60 * time.Second

var commands = map[string]func(ctx context.Context, servers string, args []string){
	"create":         create,         // TOPIC PARTITIONS
	"describe":       describe,       // TOPIC
	"describe-group": describeGroup,  // GROUP classic|consumer
	"produce":        produce,        // TOPIC
	"transact":       transact,       // TOPIC ID commit|abort
	"consume":        consume,        // TOPIC GROUP classic|consumer COUNT
	"copy":           copyByTransact, // SOURCE TARGET GROUP ID classic|consumer COUNT
}

func main() {
	log.SetFlags(0)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	commands[os.Args[1]](ctx, os.Args[2], os.Args[3:])
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func number(text string) int {
	found, err := strconv.Atoi(text)
	check(err)
	return found
}

func client(servers string, options ...kgo.Opt) *kgo.Client {
	found, err := kgo.NewClient(append(append(options, kgo.SeedBrokers(servers)), security()...)...)
	check(err)
	return found
}

// What the environment says of certificates and logins; nothing where it says nothing.
func security() []kgo.Opt {
	var found []kgo.Opt
	if authority := os.Getenv("GO_CLIENT_AUTHORITY"); authority != "" {
		trusted := x509.NewCertPool()
		trusted.AppendCertsFromPEM([]byte(authority))
		found = append(found, kgo.DialTLSConfig(&tls.Config{RootCAs: trusted}))
	}
	user, password := os.Getenv("GO_CLIENT_USER"), os.Getenv("GO_CLIENT_PASSWORD")
	switch os.Getenv("GO_CLIENT_MECHANISM") {
	case "PLAIN":
		found = append(found, kgo.SASL(plain.Auth{User: user, Pass: password}.AsMechanism()))
	case "SCRAM-SHA-256":
		found = append(found, kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		found = append(found, kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha512Mechanism()))
	}
	return found
}

// Administration

func create(ctx context.Context, servers string, args []string) {
	admin := kadm.NewClient(client(servers))
	defer admin.Close()
	config := map[string]*string{"cleanup.policy": kadm.StringPtr("delete")}
	_, err := admin.CreateTopic(ctx, int32(number(args[1])), 1, config, args[0])
	check(err)
}

func describe(ctx context.Context, servers string, args []string) {
	admin := kadm.NewClient(client(servers))
	defer admin.Close()
	topics, err := admin.ListTopics(ctx, args[0])
	check(err)
	check(topics.Error())
	ends, err := admin.ListEndOffsets(ctx, args[0])
	check(err)
	check(ends.Error())
	for _, each := range topics[args[0]].Partitions.Sorted() {
		end, _ := ends.Lookup(args[0], each.Partition)
		fmt.Println(each.Partition, each.Leader, len(each.Replicas), end.Offset)
	}
}

func describeGroup(ctx context.Context, servers string, args []string) {
	admin := kadm.NewClient(client(servers))
	defer admin.Close()
	if args[1] == "consumer" {
		groups, err := admin.DescribeConsumerGroups(ctx, args[0])
		check(err)
		check(groups[args[0]].Err)
		fmt.Println(groups[args[0]].State, len(groups[args[0]].Members))
	} else {
		groups, err := admin.DescribeGroups(ctx, args[0])
		check(err)
		check(groups[args[0]].Err)
		fmt.Println(groups[args[0]].State, len(groups[args[0]].Members))
	}
	offsets, err := admin.FetchOffsets(ctx, args[0])
	check(err)
	check(offsets.Error())
	for _, each := range offsets.Sorted() {
		fmt.Println(each.Topic, each.Partition, each.At)
	}
}

// Producing: franz-go is idempotent unless it is told otherwise

func records(topic string) []*kgo.Record {
	var found []*kgo.Record
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), " ")
		found = append(found, &kgo.Record{Topic: topic, Key: []byte(key), Value: []byte(value)})
	}
	check(lines.Err())
	return found
}

func produce(ctx context.Context, servers string, args []string) {
	producer := client(servers, kgo.ProducerBatchCompression(kgo.ZstdCompression()))
	defer producer.Close()
	for _, each := range producer.ProduceSync(ctx, records(args[0])...) {
		check(each.Err)
		fmt.Println(written(each.Record))
	}
}

func transact(ctx context.Context, servers string, args []string) {
	producer := client(servers, kgo.TransactionalID(args[1]))
	defer producer.Close()
	check(producer.BeginTransaction())
	for _, each := range producer.ProduceSync(ctx, records(args[0])...) {
		check(each.Err)
		fmt.Println(written(each.Record))
	}
	check(producer.EndTransaction(ctx, kgo.TransactionEndTry(args[2] == "commit")))
}

// Consuming

func written(record *kgo.Record) string {
	return fmt.Sprintf("%d %d %s %s", record.Partition, record.Offset, record.Key, record.Value)
}

func member(group, kind, topic string) []kgo.Opt {
	options := []kgo.Opt{
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
	}
	if kind == "consumer" {
		return append(options, kgo.Balancers(kgo.StickyBalancer()), kgo.ServerSideBalancer())
	}
	return append(options, kgo.Balancers(kgo.CooperativeStickyBalancer()))
}

func consume(ctx context.Context, servers string, args []string) {
	options := append(member(args[1], args[2], args[0]), kgo.DisableAutoCommit())
	consumer := client(servers, options...)
	defer consumer.Close()
	for left := number(args[3]); left > 0; {
		fetches := consumer.PollFetches(ctx)
		check(fetches.Err())
		fetches.EachRecord(func(record *kgo.Record) { fmt.Println(written(record)) })
		left -= fetches.NumRecords()
	}
	check(consumer.CommitUncommittedOffsets(ctx))
}

// Each poll is a transaction: what was read goes to the target together with its offsets.
func copyByTransact(ctx context.Context, servers string, args []string) {
	options := append(
		member(args[2], args[4], args[0]), kgo.TransactionalID(args[3]), kgo.SeedBrokers(servers),
	)
	session, err := kgo.NewGroupTransactSession(append(options, security()...)...)
	check(err)
	defer session.Close()
	for left := number(args[5]); left > 0; {
		fetches := session.PollRecords(ctx, 50)
		check(fetches.Err())
		check(session.Begin())
		fetches.EachRecord(func(record *kgo.Record) {
			copied := &kgo.Record{Topic: args[1], Key: record.Key, Value: record.Value}
			session.Produce(ctx, copied, func(_ *kgo.Record, err error) { check(err) })
		})
		committed, err := session.End(ctx, kgo.TryCommit)
		check(err)
		if committed {
			left -= fetches.NumRecords()
		}
	}
}
