// Package reading has the input and output of the contenders in Go. It is the counterpart of programs/reading.py, which
// describes the fields.
package reading

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Task is a topic to read: the program's only argument.
type Task struct {
	Bootstrap string  `json:"bootstrap"`
	Topic     string  `json:"topic"`
	Group     string  `json:"group"`
	Messages  int64   `json:"messages"`
	Ends      []int64 `json:"ends"`
}

type outcome struct {
	Messages         int64   `json:"messages"`
	Bytes            int64   `json:"bytes"`
	Seconds          float64 `json:"seconds"`
	SecondsFromStart float64 `json:"seconds_from_start"`
	ReadingCPU       float64 `json:"reading_cpu_seconds"`
	CPUSeconds       float64 `json:"cpu_seconds"`
	PeakRSSBytes     int64   `json:"peak_rss_bytes"`
	Version          string  `json:"version"`
}

// Tally counts messages and bytes, and measures times. Several goroutines may call its methods.
type Tally struct {
	mutex              sync.Mutex
	start, first, last time.Time
	firstCPU, lastCPU  float64
	messages, size     int64
}

// Begin reads the task, and starts the stopwatch.
func Begin() (Task, *Tally) {
	var task Task
	if err := json.Unmarshal([]byte(os.Args[1]), &task); err != nil {
		log.Fatal(err)
	}
	return task, &Tally{start: time.Now()}
}

// First notes the time of a goroutine's first message. The earliest one counts.
func (tally *Tally) First() {
	tally.mutex.Lock()
	defer tally.mutex.Unlock()
	if tally.first.IsZero() {
		tally.first, tally.firstCPU = time.Now(), cpuSeconds()
	}
}

// Add counts messages that were received now. It returns the number of all messages so far.
func (tally *Tally) Add(messages, size int64) int64 {
	tally.mutex.Lock()
	defer tally.mutex.Unlock()
	tally.last, tally.lastCPU = time.Now(), cpuSeconds()
	tally.messages += messages
	tally.size += size
	return tally.messages
}

// Report prints the outcome. The module is that of the client.
func (tally *Tally) Report(module string) {
	text, err := json.Marshal(outcome{
		Messages:         tally.messages,
		Bytes:            tally.size,
		Seconds:          tally.last.Sub(tally.first).Seconds(),
		SecondsFromStart: tally.last.Sub(tally.start).Seconds(),
		ReadingCPU:       tally.lastCPU - tally.firstCPU,
		CPUSeconds:       cpuSeconds(),
		PeakRSSBytes:     peakRSS(),
		Version:          version(module),
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(text))
}

func cpuSeconds() float64 {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		log.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()).Seconds()
}

func peakRSS() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		log.Fatal(err)
	}
	for _, line := range strings.Split(string(status), "\n") {
		var kilobytes int64
		if found, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kilobytes); found == 1 {
			return kilobytes * 1024
		}
	}
	log.Fatal("no VmHWM in /proc/self/status")
	return 0
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
