package harness

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// carrier joins the hosts of a Lan in place of a switch. It takes the frames of each host's device,
// a TAP, and gives them to their receivers when the time of a distance has passed. It drops frames
// for a receiver that has frameQueue of them under way.
type carrier struct {
	delay            atomic.Int64 // nanoseconds, one way
	taps             []*os.File
	under            []chan frame // to each host
	readers, writers sync.WaitGroup
}

// frame is one that arrives at a time.
type frame struct {
	due   time.Time
	bytes []byte
}

const (
	// frameQueue frames are 200 ms of a gigabit.
	frameQueue = 4096
	// frameBytes is more than any frame of tapMTU has.
	frameBytes = 1 << 14
	tapMTU     = 9000
	tapDevice  = "eth0"
)

// tapAddress is the hardware address of host i: its last byte is i.
func tapAddress(i int) string { return fmt.Sprintf("02:00:00:00:00:%02x", i) }

// openTap makes the device in the network namespace of this thread.
func openTap() (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/net/tun: %w", err)
	}
	request, err := unix.NewIfreq(tapDevice)
	if err == nil {
		request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a TAP device: %w", err), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), tapDevice), nil
}

// start carries the frames of all devices until close.
func (c *carrier) start() {
	for range c.taps {
		c.under = append(c.under, make(chan frame, frameQueue))
	}
	for i, tap := range c.taps {
		c.readers.Add(1)
		go c.take(i)
		c.writers.Add(1)
		go c.give(tap, c.under[i])
	}
}

// take reads what host i sends until its device is gone.
func (c *carrier) take(i int) {
	defer c.readers.Done()
	for {
		bytes := make([]byte, frameBytes)
		n, err := c.taps[i].Read(bytes)
		if err != nil {
			return
		}
		if n < 6 { // no frame
			continue
		}
		f := frame{time.Now().Add(time.Duration(c.delay.Load())), bytes[:n]}
		for j := range c.under {
			if j != i && (bytes[0]&1 == 1 || int(bytes[5]) == j) { // to all, or to host j
				select {
				case c.under[j] <- f:
				default:
				}
			}
		}
	}
}

// give writes frames to a host's device when they are due. A device that is down or closed loses
// them.
func (c *carrier) give(tap *os.File, under <-chan frame) {
	defer c.writers.Done()
	for f := range under {
		time.Sleep(time.Until(f.due))
		_, _ = tap.Write(f.bytes)
	}
}

// close ends the devices and waits for what carries their frames.
func (c *carrier) close() error {
	var errs []error
	for _, tap := range c.taps {
		errs = append(errs, tap.Close())
	}
	c.readers.Wait()
	for _, under := range c.under {
		close(under)
	}
	c.writers.Wait()
	return errors.Join(errs...)
}
