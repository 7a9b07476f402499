package source

import (
	"context"
	"io"
	"sync"
)

const (
	pieceSize  = 128 << 10
	pieceCount = 4
)

// pump reads ahead in a goroutine of its own. It makes three things possible
// that a plain reader does not: decompression runs beside splitting, a reader
// of a slow producer can take what is there without waiting for more, and an
// endless wait for input can be left behind.
type pump struct {
	filled chan piece
	free   chan []byte
	stop   chan struct{}
	done   chan struct{}
	once   sync.Once
	failed error
}

// piece is one successful read, or the error that ended reading.
type piece struct {
	data []byte
	err  error
}

// newPump starts reading from r. ended is called, in the reading goroutine, when
// reading has come to its end.
func newPump(r io.Reader, ended func()) *pump {
	p := &pump{
		filled: make(chan piece, pieceCount),
		free:   make(chan []byte, pieceCount),
		stop:   make(chan struct{}),
		done:   make(chan struct{}),
	}
	for range pieceCount {
		p.free <- make([]byte, pieceSize)
	}
	go p.run(r, ended)
	return p
}

func (p *pump) run(r io.Reader, ended func()) {
	defer close(p.done)
	defer ended()
	for {
		var buf []byte
		select {
		case buf = <-p.free:
		case <-p.stop:
			return
		}
		n, err := r.Read(buf[:pieceSize])
		if n > 0 && !p.send(piece{data: buf[:n]}) {
			return
		}
		if err != nil {
			p.send(piece{err: err})
			return
		}
		if n == 0 {
			p.free <- buf
		}
	}
}

func (p *pump) send(s piece) bool {
	select {
	case p.filled <- s:
		return true
	case <-p.stop:
		return false
	}
}

// next appends the next piece to dst. Without wait it returns dst as it is, and
// false, when nothing has arrived yet. Once it has returned an error it goes on
// returning it.
func (p *pump) next(ctx context.Context, dst []byte, wait bool) ([]byte, bool, error) {
	if p.failed != nil {
		return dst, false, p.failed
	}
	if err := ctx.Err(); err != nil {
		return dst, false, err
	}
	var s piece
	if wait {
		select {
		case s = <-p.filled:
		case <-ctx.Done():
			return dst, false, ctx.Err()
		}
	} else {
		select {
		case s = <-p.filled:
		default:
			return dst, false, nil
		}
	}
	if s.err != nil {
		p.failed = s.err
		return dst, false, s.err
	}
	dst = append(dst, s.data...)
	p.free <- s.data
	return dst, true, nil
}

// close tells the reading goroutine to end. A goroutine that waits inside a
// read ends when that read does.
func (p *pump) close() { p.once.Do(func() { close(p.stop) }) }
