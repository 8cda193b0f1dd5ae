// A group member with sarama. It takes its options as one argument of JSON, prints assigned partitions and messages as
// lines of JSON, and leaves on SIGTERM. Options and lines are those of the Python members.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"log"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/IBM/sarama"
)

// Durations are seconds, StartAt is seconds since 1970.
type options struct {
	Bootstrap         string  `json:"bootstrap"`
	Topic             string  `json:"topic"`
	Group             string  `json:"group"`
	ClientID          string  `json:"client_id"`
	Strategy          string  `json:"strategy"`
	SessionTimeout    float64 `json:"session_timeout"`
	HeartbeatInterval float64 `json:"heartbeat_interval"`
	StartAt           float64 `json:"start_at"`
	Limit             int     `json:"limit"`
}

type line struct {
	Event      string  `json:"event"`
	At         float64 `json:"at"`
	Partitions []int32 `json:"partitions"`
	Offset     int64   `json:"offset"`
	Value      string  `json:"value"`
}

var (
	printing sync.Mutex
	output   = bufio.NewWriter(os.Stdout)
)

func write(report line) {
	report.At = float64(time.Now().UnixNano()) / 1e9
	if report.Partitions == nil {
		report.Partitions = []int32{}
	}
	text, err := json.Marshal(report)
	if err != nil {
		log.Fatal(err)
	}
	printing.Lock()
	defer printing.Unlock()
	_, _ = output.Write(append(text, '\n'))
	if err := output.Flush(); err != nil {
		log.Fatal(err)
	}
}

type handler struct {
	limit int
	taken *atomic.Int64
}

func (handler) Setup(session sarama.ConsumerGroupSession) error {
	for _, partitions := range session.Claims() {
		write(line{Event: "assigned", Partitions: partitions})
	}
	return nil
}

func (handler) Cleanup(session sarama.ConsumerGroupSession) error {
	for _, partitions := range session.Claims() {
		write(line{Event: "revoked", Partitions: partitions})
	}
	return nil
}

func (handler handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			write(line{
				Event:      "message",
				Partitions: []int32{message.Partition},
				Offset:     message.Offset,
				Value:      string(message.Value),
			})
			session.MarkMessage(message, "sarama")
			if handler.taken.Add(1) == int64(handler.limit) {
				<-session.Context().Done()
				return nil
			}
		case <-session.Context().Done():
			return nil
		}
	}
}

func seconds(number float64) time.Duration {
	return time.Duration(number * float64(time.Second))
}

func configure(chosen options) *sarama.Config {
	strategies := map[string]sarama.BalanceStrategy{
		"range":      sarama.NewBalanceStrategyRange(),
		"roundrobin": sarama.NewBalanceStrategyRoundRobin(),
		"sticky":     sarama.NewBalanceStrategySticky(),
	}
	strategy, known := strategies[chosen.Strategy]
	if !known {
		log.Fatalf("sarama has no strategy %q", chosen.Strategy)
	}
	config := sarama.NewConfig()
	config.ClientID = chosen.ClientID
	config.Version = sarama.MaxVersion
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Group.Session.Timeout = seconds(chosen.SessionTimeout)
	config.Consumer.Group.Heartbeat.Interval = seconds(chosen.HeartbeatInterval)
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategy}
	return config
}

func main() {
	var chosen options
	if err := json.Unmarshal([]byte(os.Args[1]), &chosen); err != nil {
		log.Fatal(err)
	}
	// Log problems to standard error, as every member does.
	sarama.Logger = log.New(os.Stderr, "", log.LstdFlags|log.Lmicroseconds)
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	time.Sleep(time.Until(time.Unix(0, int64(chosen.StartAt*1e9))))

	write(line{Event: "starting"})
	group, err := sarama.NewConsumerGroup(strings.Split(chosen.Bootstrap, ","), chosen.Group, configure(chosen))
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		<-stop.Done()
		write(line{Event: "leaving"})
	}()
	handler := handler{chosen.Limit, new(atomic.Int64)}
	for stop.Err() == nil {
		if err := group.Consume(stop, []string{chosen.Topic}, handler); err != nil && !errors.Is(err, context.Canceled) {
			log.Fatal(err)
		}
	}
	if err := group.Close(); err != nil {
		log.Fatal(err)
	}
}
