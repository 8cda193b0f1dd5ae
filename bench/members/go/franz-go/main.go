// A member with franz-go: one loop over all partitions. Package protocol describes its task and its reports.
package main

import (
	"context"
	"log"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"sarameya/bench/members/go/protocol"
)

func main() {
	reporter := protocol.Begin("github.com/twmb/franz-go")
	task := reporter.Task
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(task.Bootstrap, ",")...),
		kgo.ConsumerGroup(task.Group),
		kgo.ConsumeTopics(task.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, assigned map[string][]int32) {
			reporter.Assigned(len(assigned[task.Topic]))
		}),
	}
	if !task.Commits {
		options = append(options, kgo.DisableAutoCommit())
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		log.Fatal(err)
	}
	if task.Pace == protocol.Never {
		select {}
	}
	for {
		fetches := client.PollFetches(context.Background())
		if errs := fetches.Errors(); len(errs) > 0 {
			log.Fatal(errs[0].Err)
		}
		fetches.EachRecord(func(record *kgo.Record) {
			reporter.Handle(record.Partition, record.Value)
			if pace := reporter.Pace(record.Partition); pace > 0 {
				time.Sleep(pace)
			}
		})
	}
}
