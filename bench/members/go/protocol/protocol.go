// Package protocol has the tasks and the reports of members in Go. It is the counterpart of protocol.py, which describes
// the fields, and of programs/reporter.py.
package protocol

import (
	"encoding/binary"
	"encoding/json"
	"log"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Never is the pace of a handler that takes no message.
const Never = -1

// Task is the task of a member: the program's only argument.
type Task struct {
	Bootstrap     string         `json:"bootstrap"`
	Topic         string         `json:"topic"`
	Group         string         `json:"group"`
	Partitions    int            `json:"partitions"`
	Options       map[string]any `json:"options"`
	Commits       bool           `json:"commits"`
	Pace          float64        `json:"pace"`
	SlowPartition int            `json:"slow_partition"`
	SlowPace      float64        `json:"slow_pace"`
	IsStamped     bool           `json:"is_stamped"`
	ReportSeconds float64        `json:"report_seconds"`
}

type line struct {
	Event      string  `json:"event"`
	At         float64 `json:"at"`
	RSSBytes   int64   `json:"rss_bytes"`
	Partitions int     `json:"partitions"`
	Others     int64   `json:"others"`
	Slow       int64   `json:"slow"`
	Sequences  []int64 `json:"sequences"`
	Lateness   []int64 `json:"lateness"`
	Version    string  `json:"version"`
}

// count fills a whole cache line, so that counting one partition does not slow down counting another.
type count struct {
	atomic.Int64
	_ [56]byte
}

// Reporter prints the reports of one member. Several goroutines may call its methods.
type Reporter struct {
	Task    Task
	version string
	counts  []count
	mutex   sync.Mutex
	stamped line
	output  sync.Mutex
}

// Begin reads the task, and reports that the program is loaded. The module is its client.
func Begin(module string) *Reporter {
	reporter := &Reporter{version: version(module)}
	if err := json.Unmarshal([]byte(os.Args[1]), &reporter.Task); err != nil {
		log.Fatal(err)
	}
	if len(reporter.Task.Options) > 0 {
		log.Fatal("members in Go have no options")
	}
	reporter.counts = make([]count, reporter.Task.Partitions)
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	reporter.write(line{Event: "loaded", RSSBytes: rss()})
	go func() {
		<-stop
		reporter.end()
	}()
	if reporter.Task.ReportSeconds > 0 {
		go reporter.report()
	}
	return reporter
}

// Assigned reports how many partitions the member has now.
func (reporter *Reporter) Assigned(partitions int) {
	reporter.write(line{Event: "assigned", Partitions: partitions})
}

// Pace returns how long the handler of a partition sleeps for each message. Below 0, it takes no message.
func (reporter *Reporter) Pace(partition int32) time.Duration {
	pace := reporter.Task.Pace
	if int(partition) == reporter.Task.SlowPartition {
		pace = reporter.Task.SlowPace
	}
	return time.Duration(pace * float64(time.Second))
}

// Handle counts a message. If it has a stamp, Handle also notes how late it is.
func (reporter *Reporter) Handle(partition int32, value []byte) {
	reporter.counts[partition].Add(1)
	if reporter.Task.IsStamped {
		now := monotonic()
		reporter.mutex.Lock()
		defer reporter.mutex.Unlock()
		reporter.stamped.Lateness = append(reporter.stamped.Lateness, now-int64(binary.BigEndian.Uint64(value)))
		reporter.stamped.Sequences = append(reporter.stamped.Sequences, int64(binary.BigEndian.Uint64(value[8:])))
	}
}

func (reporter *Reporter) report() {
	for {
		time.Sleep(time.Duration(reporter.Task.ReportSeconds * float64(time.Second)))
		reporter.write(reporter.handled(line{Event: "progress"}))
	}
}

func (reporter *Reporter) end() {
	reporter.mutex.Lock()
	defer reporter.mutex.Unlock()
	done := reporter.handled(reporter.stamped)
	done.Event, done.Version = "done", reporter.version
	reporter.write(done)
	os.Exit(0)
}

func (reporter *Reporter) handled(report line) line {
	for partition := range reporter.counts {
		count := reporter.counts[partition].Load()
		if partition == reporter.Task.SlowPartition {
			report.Slow += count
		} else {
			report.Others += count
		}
	}
	return report
}

func (reporter *Reporter) write(report line) {
	report.At = float64(monotonic()) / 1e9
	if report.Sequences == nil {
		report.Sequences, report.Lateness = []int64{}, []int64{}
	}
	text, err := json.Marshal(report)
	if err != nil {
		log.Fatal(err)
	}
	reporter.output.Lock()
	defer reporter.output.Unlock()
	if _, err := os.Stdout.Write(append(text, '\n')); err != nil {
		log.Fatal(err)
	}
}

// monotonic reads the clock that all programs of a machine share. Go's time package does not return it.
func monotonic() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		log.Fatal(err)
	}
	return now.Nano()
}

func rss() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		log.Fatal(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	if err != nil {
		log.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

func version(module string) string {
	if info, known := debug.ReadBuildInfo(); known {
		for _, dependency := range info.Deps {
			if dependency.Path == module {
				return strings.TrimPrefix(dependency.Version, "v")
			}
		}
	}
	return "unknown"
}
