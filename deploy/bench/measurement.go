package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// measurement is the result of a number of callers.
type measurement struct {
	calls   []time.Duration
	asked   int // keys
	elapsed time.Duration
	// errors counts failed calls, and failure is the first of them; misses counts responses without the requested name.
	errors, misses int
	failure        error
	// engine, bench and platform are the processor times of the ClickHouse engine, of this program with the query-api,
	// and of muster's process with broker and projector; rss is the resident memory of the engine in bytes.
	engine, bench, platform time.Duration
	rss                     int64
}

func (m *measurement) add(o measurement) {
	m.calls = append(m.calls, o.calls...)
	m.asked += o.asked
	m.errors += o.errors
	m.misses += o.misses
	if m.failure == nil {
		m.failure = o.failure
	}
}

// fail counts a failed call.
func (m *measurement) fail(err error) {
	m.errors++
	if m.failure == nil {
		m.failure = err
	}
}

// unanswered returns errUnanswered if calls failed or missed, or none completed.
func (m measurement) unanswered() error {
	if m.errors == 0 && m.misses == 0 {
		if len(m.calls) == 0 {
			return fmt.Errorf("%w: %w", errUnanswered, errNoCalls)
		}
		return nil
	}
	return errors.Join(fmt.Errorf("%w: %d errors, %d misses", errUnanswered, m.errors, m.misses), m.failure)
}

// addTurn adds a later turn of the same measurement.
func (m *measurement) addTurn(o measurement) {
	m.add(o)
	m.elapsed += o.elapsed
	m.engine += o.engine
	m.bench += o.bench
	m.platform += o.platform
	m.rss = o.rss
}

// rate returns the number of keys per second.
func (m measurement) rate() float64 { return float64(m.asked) / m.elapsed.Seconds() }

// callRate returns the number of calls per second.
func (m measurement) callRate() float64 { return float64(len(m.calls)) / m.elapsed.Seconds() }

// perCall divides d by the number of calls.
func (m measurement) perCall(d time.Duration) time.Duration {
	return d / time.Duration(max(1, len(m.calls)))
}

// cpuPerCall returns the processor time per call of all processes except this program.
func (m measurement) cpuPerCall() time.Duration { return m.perCall(m.engine + m.platform) }

func (m measurement) String() string {
	slices.Sort(m.calls)
	return fmt.Sprintf(
		"%7.0f keys/s  p50 %7.2f ms  p99 %7.2f ms  CPU s: engine %.1f, API and callers %.1f  engine %d MB",
		m.rate(), ms(quantile(m.calls, 0.5)), ms(quantile(m.calls, 0.99)), m.engine.Seconds(),
		m.bench.Seconds(), m.rss>>20)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// quantile returns a quantile of sorted durations, by nearest rank.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// usage is the resource usage of processes so far.
type usage struct {
	engine, bench, platform time.Duration
	rss                     int64
}

func (b *bench) cpu() (usage, error) {
	engine, err := b.enginePID()
	if err != nil {
		return usage{}, err
	}
	var u usage
	if u.engine, u.rss, err = process(engine); err != nil {
		return usage{}, err
	}
	if u.platform, _, err = process(b.process.Process.Pid); err != nil {
		return usage{}, err
	}
	u.bench, _, err = process(os.Getpid())
	return u, err
}

// enginePID returns the process ID of muster's only child process.
func (b *bench) enginePID() (int, error) {
	children, err := children(b.process.Process.Pid)
	if err != nil {
		return 0, err
	}
	if len(children) == 0 {
		return 0, fmt.Errorf("process %d has no child process: is CLICKHOUSE_DSN set?", b.process.Process.Pid)
	}
	return children[0], nil
}

// children returns the running child processes of a process.
func children(pid int) (list []int, err error) {
	lists, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*", "children"))
	if err != nil {
		return nil, fmt.Errorf("find the children of process %d: %w", pid, err)
	}
	for _, path := range lists {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue // the thread has exited
		}
		for _, child := range strings.Fields(string(raw)) {
			id, err := strconv.Atoi(child)
			if err != nil {
				return nil, fmt.Errorf("read %s: %w", path, err)
			}
			list = append(list, id)
		}
	}
	return list, nil
}

// processTree returns the processor time of a process and its descendants, including exited ones that it has waited for
// (proc(5), stat: cutime and cstime are fields 16 and 17). It never decreases.
func processTree(pid int) (time.Duration, error) {
	// Children first: one that exits during the call is missing rather than counted twice.
	list, err := children(pid)
	if err != nil {
		return 0, err
	}
	stat, err := readStat(pid, 14, 15, 16, 17)
	if err != nil {
		return 0, err
	}
	sum := time.Duration(stat[0]+stat[1]+stat[2]+stat[3]) * tick
	for _, child := range list {
		cpu, err := processTree(child)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, err
		}
		sum += cpu
	}
	return sum, nil
}

// process returns the processor time and the resident memory of a process
// (proc(5), stat: utime, stime and rss are fields 14, 15 and 24).
func process(pid int) (cpu time.Duration, rss int64, err error) {
	stat, err := readStat(pid, 14, 15, 24)
	if err != nil {
		return 0, 0, err
	}
	return time.Duration(stat[0]+stat[1]) * tick, stat[2] * int64(os.Getpagesize()), nil
}

// tick is the unit of times in stat: USER_HZ is 100 on every Linux that Go runs on.
const tick = 10 * time.Millisecond

// readStat returns fields of /proc/PID/stat, counted from 1 as in proc(5).
func readStat(pid int, fields ...int) ([]int64, error) {
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return nil, fmt.Errorf("read the resource usage of a process (Linux only): %w", err)
	}
	// The name, in parentheses, may contain any character; count the fields after it.
	text := string(raw)
	words := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	numbers := make([]int64, len(fields))
	for i, f := range fields {
		if numbers[i], err = strconv.ParseInt(words[f-3], 10, 64); err != nil {
			return nil, fmt.Errorf("read /proc/%d/stat: %w", pid, err)
		}
	}
	return numbers, nil
}
