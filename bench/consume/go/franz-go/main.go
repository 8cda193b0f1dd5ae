// Reads a topic by a franz-go consumer group of one member; see package reading.
package main

import (
	"context"
	"log"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"sarameya/bench/consume/go/reading"
)

func main() {
	task, tally := reading.Begin()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(task.Bootstrap, ",")...),
		kgo.ConsumerGroup(task.Group),
		kgo.ConsumeTopics(task.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	if err != nil {
		log.Fatal(err)
	}
	for read := int64(0); read < task.Messages; {
		fetches := client.PollFetches(context.Background())
		if errs := fetches.Errors(); len(errs) > 0 {
			log.Fatal(errs[0].Err)
		}
		if fetches.Empty() {
			continue
		}
		tally.First()
		var messages, size int64
		fetches.EachPartition(func(partition kgo.FetchTopicPartition) {
			for _, record := range partition.Records {
				messages++
				size += int64(len(record.Key) + len(record.Value))
			}
		})
		read = tally.Add(messages, size)
	}
	client.Close()
	tally.Report("github.com/twmb/franz-go")
}
