package bus

import (
	"errors"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// consumerMetrics are the collectors of all batch consumers of one registry.
type consumerMetrics struct {
	records      *prometheus.CounterVec   // group, topic
	batches      *prometheus.CounterVec   // group
	batchSize    *prometheus.HistogramVec // group
	handle       *prometheus.HistogramVec // group
	retries      *prometheus.CounterVec   // group
	commitErrors *prometheus.CounterVec   // group
	joinErrors   *prometheus.CounterVec   // group
	generations  *prometheus.CounterVec   // group
	dropped      *prometheus.CounterVec   // group
	skipped      *prometheus.CounterVec   // group, topic, partition
	lag          *prometheus.GaugeVec     // group, topic, partition
	lagSeconds   *prometheus.GaugeVec     // group, topic, partition
	lastHandled  *prometheus.GaugeVec     // group, topic, partition
}

func newConsumerMetrics(reg prometheus.Registerer) (*consumerMetrics, error) {
	const ns, sub = "muster", "consumer"
	g, gt, gtp := []string{"group"}, []string{"group", "topic"}, []string{"group", "topic", "partition"}
	counter := func(name, help string, labels []string) *prometheus.CounterVec {
		opts := prometheus.CounterOpts{Namespace: ns, Subsystem: sub, Name: name, Help: help}
		return prometheus.NewCounterVec(opts, labels)
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		opts := prometheus.GaugeOpts{Namespace: ns, Subsystem: sub, Name: name, Help: help}
		return prometheus.NewGaugeVec(opts, gtp)
	}
	histogram := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		opts := prometheus.HistogramOpts{Namespace: ns, Subsystem: sub, Name: name, Help: help, Buckets: buckets}
		return prometheus.NewHistogramVec(opts, g)
	}
	m := &consumerMetrics{
		records:   counter("records_total", "Records handled and committed.", gt),
		batches:   counter("batches_total", "Batches handled and committed.", g),
		batchSize: histogram("batch_records", "Records in a batch.", prometheus.ExponentialBuckets(1, 4, 10)),
		handle: histogram("batch_duration_seconds", "Time of one attempt to handle a batch.",
			prometheus.ExponentialBuckets(0.001, 2.5, 12)),
		retries:      counter("batch_retries_total", "Failed attempts to handle a batch.", g),
		commitErrors: counter("commit_errors_total", "Failed attempts to commit offsets.", g),
		joinErrors:   counter("join_errors_total", "Failed attempts to join the consumer group.", g),
		generations: counter(
			"assignments_total",
			"Assignments of partitions received, one for each generation of the group.",
			g,
		),
		dropped: counter("batches_revoked_total",
			"Batches not committed because their partitions were revoked; they are delivered again.", g),
		skipped: counter("records_lost_total", "Offsets that retention removed before they were handled, "+
			"or of record batches that cannot be read. "+
			"More than zero means data loss; some may be counted again after a restart.", gtp),
		lag: gauge("lag_records", "Offsets between the last handled record and the end of the partition."),
		lagSeconds: gauge("lag_seconds",
			"Age of the oldest record that is fetched and not handled; 0 without one."),
		lastHandled: gauge("last_record_timestamp_seconds", "Unix time of the last handled record."),
	}
	if reg == nil {
		return m, nil
	}
	// Consumers of one process share a registry, and so the collectors.
	err := errors.Join(
		shared(reg, &m.records), shared(reg, &m.batches), shared(reg, &m.batchSize), shared(reg, &m.handle),
		shared(reg, &m.retries), shared(reg, &m.commitErrors), shared(reg, &m.joinErrors), shared(reg, &m.generations),
		shared(reg, &m.dropped), shared(reg, &m.skipped), shared(reg, &m.lag), shared(reg, &m.lagSeconds),
		shared(reg, &m.lastHandled),
	)
	return m, err
}

// shared registers *c, or replaces it by the equal collector that is already registered.
func shared[C prometheus.Collector](reg prometheus.Registerer, c *C) error {
	err := reg.Register(*c)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		existing, ok := already.ExistingCollector.(C)
		if !ok {
			return err
		}
		*c = existing
		return nil
	}
	return err
}

func (m *consumerMetrics) setLag(group string, tp topicPartition, p partitionProgress, now time.Time) {
	labels := []string{group, tp.topic, strconv.Itoa(tp.partition)}
	m.lag.WithLabelValues(labels...).Set(float64(p.lag()))
	age := 0.0
	if p.lag() > 0 && len(p.pending) > 0 {
		age = max(0, now.Sub(p.pending[0].since).Seconds())
	}
	m.lagSeconds.WithLabelValues(labels...).Set(age)
	if !p.lastHandled.IsZero() {
		m.lastHandled.WithLabelValues(labels...).Set(float64(p.lastHandled.UnixMilli()) / 1000)
	}
}

// deletePartition removes the gauges of a partition that was revoked: two processes must not both report it.
func (m *consumerMetrics) deletePartition(group string, tp topicPartition) {
	labels := []string{group, tp.topic, strconv.Itoa(tp.partition)}
	m.lag.DeleteLabelValues(labels...)
	m.lagSeconds.DeleteLabelValues(labels...)
	m.lastHandled.DeleteLabelValues(labels...)
}
