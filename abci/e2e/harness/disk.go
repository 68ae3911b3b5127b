package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// smallDiskBytes holds a cluster, or a node's blocks, for some minutes of load.
	smallDiskBytes = 384 << 20
	blkio          = "/sys/fs/cgroup/blkio"
	groupPrefix    = "chainify-slow-"
)

// disks are the directories of a member that can be full or slow: its database's and its node's.
func (n *Network) disks(name string) (database, node string) {
	return filepath.Join(n.Dir, name, "data"), filepath.Join(n.Dir, "nodes", name, "data")
}

// mountSmall puts a directory on a small disk of its own, in memory, with what it holds. Needs
// CAP_SYS_ADMIN and should be called in a mount namespace of its own: the mount then ends with the
// last process in it.
func (n *Network) mountSmall(ctx context.Context, dir string) error {
	before := dir + ".before"
	if err := os.Rename(dir, before); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	options := fmt.Sprintf("size=%d,mode=0700,uid=%d,gid=%d", smallDiskBytes, n.account.uid, n.account.gid)
	if err := syscall.Mount("chainify-small", dir, "tmpfs", 0, options); err != nil {
		return fmt.Errorf("mount a small disk at %s: %w", dir, err)
	}
	n.mounts = append(n.mounts, dir)
	if _, err := n.account.Run(ctx, "/", "cp", "-a", before+"/.", dir); err != nil {
		return err
	}
	return os.RemoveAll(before)
}

func (n *Network) unmount() error {
	var errs []error
	for _, dir := range n.mounts {
		errs = append(errs, syscall.Unmount(dir, syscall.MNT_DETACH))
	}
	n.mounts = nil
	return errors.Join(errs...)
}

// FillDatabase leaves no byte free on the small disk of the organisation's database, until
// FreeDatabase.
func (o *Organisation) FillDatabase() error {
	dir, _ := o.net.disks(o.Name)
	return o.net.fill(dir)
}

// FreeDatabase takes back what FillDatabase took.
func (o *Organisation) FreeDatabase() error {
	dir, _ := o.net.disks(o.Name)
	return os.Remove(ballast(dir))
}

// FillNode leaves no byte free on the small disk of the node, until FreeNode.
func (n *Node) FillNode() error {
	_, dir := n.net.disks(n.machine())
	return n.net.fill(dir)
}

// FreeNode takes back what FillNode took.
func (n *Node) FreeNode() error {
	_, dir := n.net.disks(n.machine())
	return os.Remove(ballast(dir))
}

// TakeSmallDisk puts the home of a node that does not run on a small disk, which can be filled.
func (n *Node) TakeSmallDisk(ctx context.Context) error { return n.net.mountSmall(ctx, n.Home()) }

// FillHome leaves so many bytes free on the small disk of the node's home, until FreeHome.
func (n *Node) FillHome(leave int64) error {
	if err := n.net.fill(n.Home()); err != nil || leave == 0 {
		return err
	}
	file, err := os.Stat(ballast(n.Home()))
	if err != nil {
		return err
	}
	return os.Truncate(ballast(n.Home()), file.Size()-leave)
}

// FreeHome takes back what FillHome took.
func (n *Node) FreeHome() error { return os.Remove(ballast(n.Home())) }

func ballast(dir string) string { return filepath.Join(dir, "ballast") }

func (n *Network) fill(dir string) error {
	if !slices.Contains(n.mounts, dir) {
		return fmt.Errorf("%s is not on a small disk: this would fill the machine's", dir)
	}
	f, err := os.OpenFile(ballast(dir), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	// Others write meanwhile: what is free is halved until nothing is.
	for size, at := int64(smallDiskBytes), int64(0); size >= 4096; {
		switch err := unix.Fallocate(int(f.Fd()), 0, at, size); {
		case err == nil:
			at += size
		case errors.Is(err, unix.ENOSPC):
			size /= 2
		default:
			return fmt.Errorf("fill %s: %w", dir, err)
		}
	}
	return nil
}

// CanSlowDisks says why disks cannot be made slow here; nil when they can: the block I/O controller
// of control groups, version 1, bounds the writes of processes, fsync's included.
func CanSlowDisks() error {
	if _, err := os.Stat(filepath.Join(blkio, "blkio.throttle.write_iops_device")); err != nil {
		return errors.New("no control group (version 1) with blkio.throttle")
	}
	return unix.Access(blkio, unix.W_OK)
}

// SlowDatabase bounds the organisation's server to so many writes a second, until FastDatabase.
func (o *Organisation) SlowDatabase(writes int) error {
	dir, _ := o.net.disks(o.Name)
	return o.instance().process.slow(dir, writes)
}

// FastDatabase ends SlowDatabase.
func (o *Organisation) FastDatabase() error { return o.instance().process.fast() }

// SlowNode bounds the node to so many writes a second, until FastNode.
func (n *Node) SlowNode(writes int) error {
	_, dir := n.net.disks(n.machine())
	return n.node.slow(dir, writes)
}

// FastNode ends SlowNode.
func (n *Node) FastNode() error { return n.node.fast() }

// group is named by a path that no other run has: process ids are those of a namespace.
func (p *Process) group() string {
	return filepath.Join(blkio, groupPrefix+strings.ReplaceAll(strings.Trim(p.pids, "/"), "/", "-"))
}

func (p *Process) slow(dir string, writes int) error {
	device, err := diskOf(dir)
	if err != nil {
		return err
	}
	if err := os.Mkdir(p.group(), 0o755); err != nil && !os.IsExist(err) {
		return err
	}
	limit := filepath.Join(p.group(), "blkio.throttle.write_iops_device")
	if err := os.WriteFile(limit, []byte(fmt.Sprintf("%s %d", device, writes)), 0); err != nil {
		return fmt.Errorf("slow down %s: %w", p.Name, err)
	}
	return p.move(p.group())
}

// fast moves the process back and removes its group; what had ended or was begun meanwhile is no
// error.
func (p *Process) fast() error {
	members, err := os.ReadFile(filepath.Join(p.group(), "cgroup.procs"))
	if err != nil {
		return fmt.Errorf("end slowing down %s: %w", p.Name, err)
	}
	if err := os.WriteFile(filepath.Join(p.group(), "blkio.throttle.write_iops_device"), []byte(p.device()+" 0"), 0); err != nil {
		return err
	}
	for _, pid := range strings.Fields(string(members)) {
		_ = os.WriteFile(filepath.Join(blkio, "cgroup.procs"), []byte(pid), 0)
	}
	_ = os.Remove(p.group()) // a child that was just begun keeps it, without a bound; it goes with the machine's groups
	return nil
}

// device reads back which device the group bounds.
func (p *Process) device() string {
	text, err := os.ReadFile(filepath.Join(p.group(), "blkio.throttle.write_iops_device"))
	if fields := strings.Fields(string(text)); err == nil && len(fields) > 0 {
		return fields[0]
	}
	return "0:0"
}

// move puts the process and its children into a control group.
func (p *Process) move(group string) error {
	for _, pid := range append([]int{p.PID()}, children(p.PID())...) {
		err := os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
		if err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("move %s to %s: %w", p.Name, group, err)
		}
	}
	return nil
}

// diskOf gives the numbers of the whole disk that holds a directory: bounds are kept per disk, not
// per partition.
func diskOf(dir string) (string, error) {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return "", err
	}
	number := fmt.Sprintf("%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev))
	sys, err := filepath.EvalSymlinks("/sys/dev/block/" + number)
	if err != nil {
		return "", fmt.Errorf("%s is on no disk: %w", dir, err)
	}
	if _, err := os.Stat(filepath.Join(sys, "partition")); err != nil {
		return number, nil
	}
	whole, err := os.ReadFile(filepath.Join(filepath.Dir(sys), "dev"))
	return strings.TrimSpace(string(whole)), err
}
