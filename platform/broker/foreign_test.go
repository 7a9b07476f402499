package broker_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"muster/platform/broker"
	"muster/platform/broker/brokertest"
	"muster/platform/bus"
	"muster/platform/internal/recordbatch/recordbatchtest"
)

// rawClient sends requests as they are given.
type rawClient struct {
	t    *testing.T
	conn net.Conn
	id   int32
}

func dialRaw(t *testing.T, addr string) *rawClient {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return &rawClient{t: t, conn: conn}
}

func (c *rawClient) send(r kmsg.Request, version int16) {
	c.t.Helper()
	require.NoError(c.t, c.write(r, version))
}

func (c *rawClient) write(r kmsg.Request, version int16) error {
	c.t.Helper()
	r.SetVersion(version)
	require.NoError(c.t, c.conn.SetDeadline(time.Now().Add(30*time.Second)))
	c.id++
	_, err := c.conn.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID("raw")).AppendRequest(nil, r, c.id))
	return err
}

func (c *rawClient) receive(r kmsg.Request) (kmsg.Response, error) {
	var h [8]byte
	if _, err := io.ReadFull(c.conn, h[:]); err != nil {
		return nil, err
	}
	require.EqualValues(c.t, c.id, binary.BigEndian.Uint32(h[4:]))
	body := make([]byte, binary.BigEndian.Uint32(h[:4])-4)
	if _, err := io.ReadFull(c.conn, body); err != nil {
		return nil, err
	}
	res := r.ResponseKind()
	if res.IsFlexible() && r.Key() != kmsg.ApiVersions.Int16() {
		body = body[1:]
	}
	return res, res.ReadFrom(body)
}

func (c *rawClient) call(r kmsg.Request, version int16) kmsg.Response {
	c.t.Helper()
	c.send(r, version)
	res, err := c.receive(r)
	require.NoError(c.t, err)
	return res
}

// requireClosed requires that the connection is closed without a response.
func (c *rawClient) requireClosed(r kmsg.Request) {
	c.t.Helper()
	_, err := c.receive(r)
	require.Error(c.t, err)
	require.False(c.t, errors.Is(err, os.ErrDeadlineExceeded), "the connection is still open")
}

func produceRequest(topic string, acks int16, batches ...[]byte) *kmsg.ProduceRequest {
	p := kmsg.NewPtrProduceRequest()
	p.Acks, p.TimeoutMillis = acks, 1000
	t := kmsg.NewProduceRequestTopic()
	t.Topic = topic
	for i, b := range batches {
		part := kmsg.NewProduceRequestTopicPartition()
		part.Partition, part.Records = int32(i), b
		t.Partitions = append(t.Partitions, part)
	}
	p.Topics = append(p.Topics, t)
	return p
}

func codes(res kmsg.Response) []int16 {
	var out []int16
	for _, p := range res.(*kmsg.ProduceResponse).Topics[0].Partitions {
		out = append(out, p.ErrorCode)
	}
	return out
}

func readValues(t *testing.T, cfg bus.Config, topic string) (values []string) {
	t.Helper()
	_, err := bus.Read(t.Context(), cfg, topic, nil, func(m kafka.Message) error {
		values = append(values, string(m.Value))
		return nil
	})
	require.NoError(t, err)
	return values
}

func TestProduce_RejectsOnlyInvalidBatches(t *testing.T) {
	dir := t.TempDir()
	b := brokertest.StartConfig(t, broker.Config{DataDir: dir})
	cfg := bus.Config{Brokers: b.Addrs()}
	createTopics(t, cfg, bus.Topic{Name: "t", Partitions: 2})
	c := dialRaw(t, b.Addrs()[0])
	cases := recordbatchtest.Poison()
	for i, poison := range cases {
		version := int16(3 + i%10) // all versions of Produce
		res := c.call(produceRequest("t", -1, poison.Raw, recordbatchtest.Good("good")), version)
		require.ElementsMatch(t, []int16{kerr.InvalidRecord.Code, 0}, codes(res), poison.Name)
		if version >= 8 {
			for _, p := range res.(*kmsg.ProduceResponse).Topics[0].Partitions {
				require.Equal(t, p.ErrorCode != 0, p.ErrorMessage != nil, poison.Name)
			}
		}
		c.send(produceRequest("t", 0, poison.Raw), 7) // acks=0 has no response
	}
	for codec := int16(recordbatchtest.Gzip); codec <= recordbatchtest.Zstd; codec++ {
		size := 65 << 20
		if codec == recordbatchtest.Snappy {
			continue // 2 MiB of Snappy cannot inflate to that size
		}
		bomb, err := recordbatchtest.Bomb(codec, size)
		require.NoError(t, err)
		res := c.call(produceRequest("t", -1, bomb, recordbatchtest.Good("good")), 12)
		require.ElementsMatch(t, []int16{kerr.MessageTooLarge.Code, 0}, codes(res), "codec %d", codec)
	}
	damaged := recordbatchtest.Good("damaged")
	damaged[len(damaged)-3] ^= 1
	require.Equal(t, []int16{kerr.CorruptMessage.Code}, codes(c.call(produceRequest("t", -1, damaged), 12)))
	require.Len(t, readValues(t, cfg, "t"), len(cases)+3)

	require.NoError(t, b.Close())
	b = brokertest.StartConfig(t, broker.Config{DataDir: dir})
	require.Len(t, readValues(t, bus.Config{Brokers: b.Addrs()}, "t"), len(cases)+3)
}

func TestProduce_AcceptsAllCodecs(t *testing.T) {
	b := brokertest.Start(t)
	cfg := bus.Config{Brokers: b.Addrs()}
	createTopics(t, cfg, bus.Topic{Name: "t", Partitions: 1})
	var want []string
	for codec := kafka.Compression(0); codec <= kafka.Zstd; codec++ {
		w := bus.NewWriter(cfg)
		w.Compression = codec
		value := bytes.Repeat([]byte{'a' + byte(codec)}, 100_000)
		want = append(want, string(value))
		m := kafka.Message{Topic: "t", Value: value, Headers: []kafka.Header{{Key: "h", Value: []byte("v")}}}
		require.NoError(t, bus.WriteAll(t.Context(), w, []kafka.Message{m}))
		require.NoError(t, w.Close())
	}
	require.Equal(t, want, readValues(t, cfg, "t"))
}

// kfake would crash on these requests or run out of memory.
func TestConnection_ClosedOnHarmfulRequests(t *testing.T) {
	_, addr := startChild(t, t.TempDir(), "127.0.0.1:0", serving)
	ids := kmsg.NewPtrProduceRequest()
	ids.Acks = -1
	for i := byte(1); i < 3; i++ {
		topic := kmsg.NewProduceRequestTopic()
		topic.TopicID = [16]byte{i}
		topic.Partitions = []kmsg.ProduceRequestTopicPartition{{Records: recordbatchtest.Good("x")}}
		ids.Topics = append(ids.Topics, topic)
	}
	large := kmsg.NewPtrMetadataRequest()
	for range 600_000 {
		large.Topics = append(large.Topics, kmsg.MetadataRequestTopic{Topic: kmsg.StringPtr("")})
	}
	many := kmsg.NewPtrProduceRequest()
	many.Topics = make([]kmsg.ProduceRequestTopic, 20_000)
	tagged := produceRequest("t", -1, recordbatchtest.Good("x"))
	for i := range uint32(1000) {
		tagged.UnknownTags.Set(i, nil)
	}
	for name, r := range map[string]struct {
		kmsg.Request
		version int16
	}{
		"two unknown topics by id": {ids, 13},
		"a large request":          {large, 1},
		"many topics":              {many, 7},
		"many tags":                {tagged, 9},
		"an old Produce":           {produceRequest("t", -1, nil), 2},
	} {
		t.Run(name, func(t *testing.T) {
			c := dialRaw(t, addr)
			_ = c.write(r.Request, r.version) // may fail: requests that are too large are not read to their end
			c.requireClosed(r.Request)
			createTopics(t, bus.Config{Brokers: []string{addr}}, bus.Topic{Name: "t", Partitions: 1})
		})
	}
}

func TestCreateTopics_LimitsPartitions(t *testing.T) {
	b := brokertest.Start(t)
	c := dialRaw(t, b.Addrs()[0])
	create := kmsg.NewPtrCreateTopicsRequest()
	for name, partitions := range map[string]int32{"small": 4, "flipped": 4 | 1<<28} {
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, 1
		create.Topics = append(create.Topics, topic)
	}
	for _, version := range []int16{2, 7} {
		got := map[string]int16{}
		for _, topic := range c.call(create, version).(*kmsg.CreateTopicsResponse).Topics {
			got[topic.Topic] = topic.ErrorCode
		}
		require.Equal(t, kerr.InvalidPartitions.Code, got["flipped"])
		if version == 2 {
			require.Zero(t, got["small"])
		} else {
			require.Equal(t, kerr.TopicAlreadyExists.Code, got["small"])
		}
	}
	more := kmsg.NewPtrCreatePartitionsRequest()
	more.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: "small", Count: 1 << 28}}
	require.Equal(t, kerr.InvalidPartitions.Code, c.call(more, 1).(*kmsg.CreatePartitionsResponse).Topics[0].ErrorCode)
	more.Topics[0].Count = 6
	require.Zero(t, c.call(more, 3).(*kmsg.CreatePartitionsResponse).Topics[0].ErrorCode)
}

func TestConnection_AllowsOnlyLoginBeforeAuthentication(t *testing.T) {
	users := []broker.User{
		{Mechanism: "PLAIN", Name: "anna", Password: "secret"},
		{Mechanism: "SCRAM-SHA-256", Name: "bert", Password: "secret"},
	}
	logger := slog.New(slog.DiscardHandler)
	b := brokertest.StartConfig(t, broker.Config{DataDir: t.TempDir(), Users: users, Logger: logger})
	handshake := func(mechanism string) *kmsg.SASLHandshakeRequest {
		r := kmsg.NewPtrSASLHandshakeRequest()
		r.Mechanism = mechanism
		return r
	}
	login := func(bytes string) *kmsg.SASLAuthenticateRequest {
		r := kmsg.NewPtrSASLAuthenticateRequest()
		r.SASLAuthBytes = []byte(bytes)
		return r
	}
	metadata := kmsg.NewPtrMetadataRequest()
	metadata.Topics = []kmsg.MetadataRequestTopic{}

	t.Run("a request", func(t *testing.T) {
		c := dialRaw(t, b.Addrs()[0])
		c.send(metadata, 1)
		c.requireClosed(metadata)
	})
	t.Run("a large login", func(t *testing.T) {
		c := dialRaw(t, b.Addrs()[0])
		require.Zero(t, c.call(handshake("PLAIN"), 1).(*kmsg.SASLHandshakeResponse).ErrorCode)
		large := login(string(make([]byte, 65<<10)))
		_ = c.write(large, 1) // may fail, as above
		c.requireClosed(large)
	})
	t.Run("a wrong password", func(t *testing.T) {
		c := dialRaw(t, b.Addrs()[0])
		c.call(handshake("PLAIN"), 1)
		c.send(login("\x00anna\x00guess"), 1)
		c.requireClosed(login(""))
	})
	t.Run("an unknown user with an empty password", func(t *testing.T) {
		c := dialRaw(t, b.Addrs()[0])
		c.call(handshake("PLAIN"), 1)
		c.send(login("\x00nobody\x00"), 1)
		c.requireClosed(login(""))
	})
	t.Run("4 billion tags", func(t *testing.T) {
		for attempt := 1; ; attempt++ { // a busy machine may delay one attempt
			c, began := dialRaw(t, b.Addrs()[0]), time.Now()
			_, err := c.conn.Write([]byte(
				"\x00\x00\x00\x12\x00\x12\x00\x03\x00\x00\x00\x01\xff\xff\x00\x02a\x02b\xff\xff\xff\xff\x0f"))
			require.NoError(t, err)
			c.requireClosed(kmsg.NewPtrApiVersionsRequest())
			if time.Since(began) < 3*time.Second {
				break
			}
			require.Less(t, attempt, 3, "the tags are counted to the end")
		}
	})
	t.Run("an incomplete login", func(t *testing.T) {
		c := dialRaw(t, b.Addrs()[0])
		c.call(handshake("SCRAM-SHA-256"), 1)
		res := c.call(login("n,,n=bert,r=nonce"), 2).(*kmsg.SASLAuthenticateResponse)
		require.Zero(t, res.ErrorCode)
		c.send(metadata, 1)
		c.requireClosed(metadata)
	})
	for version := range int16(3) {
		c := dialRaw(t, b.Addrs()[0])
		c.call(kmsg.NewPtrApiVersionsRequest(), 0)
		c.call(handshake("GUESS"), 1) // unsupported
		require.Zero(t, c.call(handshake("PLAIN"), 1).(*kmsg.SASLHandshakeResponse).ErrorCode)
		require.Zero(t, c.call(login("\x00anna\x00secret"), version).(*kmsg.SASLAuthenticateResponse).ErrorCode)
		c.call(metadata, 1)
	}
}

func TestHandshake_ListsEnabledMechanisms(t *testing.T) {
	users := []broker.User{
		{Mechanism: "PLAIN", Name: "anna", Password: "secret"},
		{Mechanism: "SCRAM-SHA-256", Name: "bert", Password: "secret"},
	}
	b := brokertest.StartConfig(t, broker.Config{DataDir: t.TempDir(), Users: users})
	for mechanism, want := range map[string]int16{
		"PLAIN": 0, "SCRAM-SHA-256": 0,
		"SCRAM-SHA-512": kerr.UnsupportedSaslMechanism.Code, // has no users
		"GSSAPI":        kerr.UnsupportedSaslMechanism.Code, "": kerr.UnsupportedSaslMechanism.Code,
	} {
		for version := range int16(2) {
			req := kmsg.NewPtrSASLHandshakeRequest()
			req.Mechanism = mechanism
			res := dialRaw(t, b.Addrs()[0]).call(req, version).(*kmsg.SASLHandshakeResponse)
			require.Equal(t, want, res.ErrorCode, "%q in version %d", mechanism, version)
			require.Equal(t, []string{"PLAIN", "SCRAM-SHA-256"}, res.SupportedMechanisms)
		}
	}
}

func TestHandshake_Version0IsFollowedByRawTokens(t *testing.T) {
	users := []broker.User{{Mechanism: "PLAIN", Name: "a", Password: "secret"}}
	b := brokertest.StartConfig(t, broker.Config{DataDir: t.TempDir(), Users: users})
	handshake := kmsg.NewPtrSASLHandshakeRequest()
	handshake.Mechanism = "PLAIN"
	metadata := kmsg.NewPtrMetadataRequest()
	token := func(c *rawClient, text string) {
		_, err := c.conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
		require.NoError(t, err)
	}

	c := dialRaw(t, b.Addrs()[0])
	require.Zero(t, c.call(handshake, 0).(*kmsg.SASLHandshakeResponse).ErrorCode)
	token(c, "\x00a\x00secret")
	var size [4]byte
	_, err := io.ReadFull(c.conn, size[:])
	require.NoError(t, err)
	require.Equal(t, [4]byte{}, size, "an empty token")
	c.call(metadata, 1)

	for _, wrong := range []string{"\x00a\x00guess", "\x00a\x00", "", "x"} {
		c := dialRaw(t, b.Addrs()[0])
		c.call(handshake, 0)
		token(c, wrong)
		_, err := c.conn.Read(size[:])
		require.ErrorIs(t, err, io.EOF, "%q", wrong)
	}
}

func TestStart_ReplacesStoredUsers(t *testing.T) {
	dir := t.TempDir()
	with := func(password string) bus.Config {
		t.Helper()
		mechanism, err := bus.SCRAM("muster", password)
		require.NoError(t, err)
		return bus.Config{SASL: mechanism}
	}
	for _, password := range []string{"", "first", "second", "", "third"} {
		cfg := broker.Config{DataDir: dir, Logger: slog.New(slog.DiscardHandler)}
		clients := bus.Config{}
		if password != "" {
			cfg.Users = []broker.User{{Mechanism: "SCRAM-SHA-256", Name: "muster", Password: password}}
			clients = with(password)
		}
		b, err := broker.Start(t.Context(), cfg)
		require.NoError(t, err)
		clients.Brokers = b.Addrs()
		err = bus.EnsureTopics(t.Context(), clients, []bus.Topic{{Name: "t", Partitions: 1}})
		require.NoError(t, err, "password %q", password)
		if password != "" {
			for name, other := range map[string]bus.Config{"none": {}, "first": with("first"), "guess": with("guess")} {
				if other.Brokers = b.Addrs(); name == "first" && password == "first" {
					continue
				}
				_, err := bus.EndOffsets(t.Context(), other, []string{"t"})
				require.Error(t, err, "login %s, password %q", name, password)
			}
		}
		require.NoError(t, b.Close())
	}
}

func TestApiVersions_LimitsOnlyProduceAndDeleteRecords(t *testing.T) {
	b := brokertest.Start(t)
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	require.NoError(t, err)
	defer cluster.Close()
	versions := func(addr string) (map[int16]int16, *kmsg.ApiVersionsResponse) {
		r := kmsg.NewPtrApiVersionsRequest()
		r.ClientSoftwareName, r.ClientSoftwareVersion = "raw", "1"
		res := dialRaw(t, addr).call(r, 3).(*kmsg.ApiVersionsResponse)
		out := map[int16]int16{}
		for _, k := range res.ApiKeys {
			out[k.ApiKey] = k.MaxVersion
		}
		return out, res
	}
	got, gotRes := versions(b.Addrs()[0])
	want, wantRes := versions(cluster.ListenAddrs()[0])
	require.EqualValues(t, 13, want[0])
	want[0] = 12
	require.Contains(t, want, kmsg.DeleteRecords.Int16())
	delete(want, kmsg.DeleteRecords.Int16()) // kfake does not persist it until it is closed
	require.Equal(t, want, got)
	require.Equal(t, wantRes.FinalizedFeatures, gotRes.FinalizedFeatures)
	require.Equal(t, wantRes.SupportedFeatures, gotRes.SupportedFeatures)
}
