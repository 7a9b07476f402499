package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// Open opens a file of any format. Reading ends with ctx's error once ctx has
// ended. The caller closes the source.
func Open(ctx context.Context, path string, opts Options) (Source, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err // an fs.PathError: it names operation, path and cause
	}
	if info.IsDir() {
		return nil, fmt.Errorf("open %s: is a directory", path)
	}
	if opts.Format == FormatAuto {
		opts.Format = formatOfName(path)
	}
	if !info.Mode().IsRegular() {
		p := &pipe{path: path}
		return openStream(ctx, path, p, p, opts)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return openRegular(ctx, path, f, info.Size(), opts)
}

// pipe is a named pipe, or a device, that is opened when it is read: opening it waits
// for its producer.
type pipe struct {
	path string

	mu     sync.Mutex
	file   *os.File
	closed bool
}

func (p *pipe) Read(b []byte) (int, error) {
	f, err := p.open()
	if err != nil {
		return 0, err
	}
	return f.Read(b)
}

// open is called by the one goroutine that reads.
func (p *pipe) open() (*os.File, error) {
	if p.file != nil {
		return p.file, nil
	}
	f, err := os.Open(p.path)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errors.Join(os.ErrClosed, f.Close())
	}
	p.file = f
	return f, nil
}

// Close ends a read. Whoever still waits for a producer ends when one comes.
func (p *pipe) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.file == nil {
		return nil
	}
	return p.file.Close()
}

// FromReader reads from r, which stays the caller's to close. Reading ends with
// ctx's error once ctx has ended, even while r is waiting for input; the one
// goroutine that waits inside r then ends when r returns.
func FromReader(ctx context.Context, name string, r io.Reader, opts Options) (Source, error) {
	return openStream(ctx, name, r, nil, opts)
}

// detectSize is how much of a file is looked at to find out its format.
const detectSize = 16 << 10

func openRegular(ctx context.Context, path string, f *os.File, size int64, opts Options) (Source, error) {
	head := make([]byte, detectSize)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, errors.Join(err, f.Close())
	}
	head = head[:n]
	if bytes.HasPrefix(head, []byte(parquetMagic)) && opts.Format != FormatNDJSON && opts.Format != FormatCSV && opts.Format != FormatTSV {
		opts.Format = FormatParquet
	}
	if opts.Format == FormatParquet {
		return openParquet(ctx, path, f, size, opts)
	}
	if opts.Format == FormatAuto && isPlain(head) {
		opts.Format = formatOfText(head)
	}
	return openStream(ctx, path, f, f, opts)
}

// openStream reads r, of which own is what is closed with the source.
func openStream(ctx context.Context, name string, r io.Reader, own io.Closer, opts Options) (Source, error) {
	closing := func(err error) error {
		if own == nil {
			return err
		}
		return errors.Join(err, own.Close())
	}
	if opts.Format == FormatParquet {
		return nil, closing(fmt.Errorf("%s: Parquet is read from files only: its directory stands at its end", name))
	}
	l, err := newStream(ctx, name, r, opts)
	if err != nil {
		return nil, closing(err)
	}
	l.own = own
	if f, ok := own.(*os.File); ok && opts.Format == FormatNDJSON {
		if info, err := f.Stat(); err != nil {
			return nil, closing(err)
		} else if err := l.seek(f, info.Size()); err != nil {
			return nil, closing(err)
		}
	}
	l.start()
	switch opts.Format {
	case FormatNDJSON:
		return newJSON(l), nil
	case FormatCSV, FormatTSV:
		return newTable(l), nil
	}
	return &detecting{stream: l}, nil
}

// detecting finds out the format when the first line has come: opening a pipe
// must not wait for its producer.
type detecting struct {
	*stream
	found Source
}

// Next implements [Source].
func (d *detecting) Next() (*Chunk, error) {
	if d.found == nil {
		for len(d.carry) < detectSize && !bytes.ContainsAny(d.carry, newline+carriageReturn) {
			var err error
			if d.carry, _, err = d.pump.next(d.ctx, d.carry, true); err != nil {
				break // reading returns it again
			}
		}
		if formatOfText(d.carry) == FormatCSV {
			d.found = newTable(d.stream)
		} else {
			d.found = newJSON(d.stream)
		}
	}
	return d.found.Next()
}
