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

// pump reads ahead in a separate goroutine. So decompression runs concurrently with splitting, data of a slow
// writer is available without waiting for more, and a reader blocked forever can be abandoned.
type pump struct {
	filled chan piece
	free   chan []byte
	stop   chan struct{}
	done   chan struct{}
	once   sync.Once
	err    error
}

// piece is the result of one read, or the error that ended reading.
type piece struct {
	data []byte
	err  error
}

// newPump starts reading from r. ended is called in the reading goroutine when it ends.
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

// next appends the next piece to dst. If wait is false and nothing has arrived yet, it returns dst
// and false. After an error it keeps returning that error.
func (p *pump) next(ctx context.Context, dst []byte, wait bool) ([]byte, bool, error) {
	if p.err != nil {
		return dst, false, p.err
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
		p.err = s.err
		return dst, false, s.err
	}
	dst = append(dst, s.data...)
	p.free <- s.data
	return dst, true, nil
}

// close stops the reading goroutine. If the goroutine is blocked in a read, it ends when that read returns.
func (p *pump) close() { p.once.Do(func() { close(p.stop) }) }
