package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

// server is a running API server; config is what its own controllers connect with, who may do everything.
type server struct {
	config *rest.Config
	stop   func()
}

// start returns when the server says that it is ready. What the server logs is shown when it does not come so far.
func start(ctx context.Context) (_ *server, err error) {
	var log bytes.Buffer
	logTo(&log)
	dir, err := os.MkdirTemp("", "apiserver-")
	if err != nil {
		return nil, err
	}
	ends := []func(){func() { os.RemoveAll(dir) }}
	stop := func() {
		for i := len(ends); i > 0; i-- {
			ends[i-1]()
		}
		klog.Flush()
	}
	defer func() {
		if err != nil {
			stop()
			err = fmt.Errorf("%w\n%s", err, &log)
		}
	}()

	etcd, err := startEtcd(ctx, filepath.Join(dir, "etcd"))
	if err != nil {
		return nil, fmt.Errorf("start etcd: %w", err)
	}
	ends = append(ends, etcd.Close)
	opts, err := configure(dir, etcd.Clients[0].Addr().String())
	if err != nil {
		return nil, fmt.Errorf("configure: %w", err)
	}
	config, end, err := serve(ctx, opts)
	if err != nil {
		return nil, err
	}
	ends = append(ends, end)
	return &server{config: config, stop: stop}, nil
}

// logTo keeps errors off standard error, too: the server logs every request that it refuses.
func logTo(log io.Writer) {
	flags := flag.NewFlagSet("log", flag.PanicOnError)
	klog.InitFlags(flags)
	_ = flags.Parse([]string{"-logtostderr=false", "-stderrthreshold=FATAL", "-one_output"})
	klog.SetOutput(log)
}

// startEtcd has one member, on ports that the system chooses.
func startEtcd(ctx context.Context, dir string) (*embed.Etcd, error) {
	cfg := embed.NewConfig()
	cfg.Dir = dir
	cfg.LogLevel = "panic"
	cfg.UnsafeNoFsync = true
	chosen := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = chosen, chosen
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = chosen, chosen
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, err
	}
	select {
	case <-etcd.Server.ReadyNotify():
		return etcd, nil
	case err = <-etcd.Err():
	case <-ctx.Done():
		err = ctx.Err()
	}
	etcd.Close()
	return nil, err
}

// configure is what differs from the defaults, which most clusters have: a listener of its own, keys made now, no endpoints of the service kubernetes (they
// may not be on loopback).
func configure(dir, etcd string) (*options.ServerRunOptions, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	pem, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, err
	}
	signing := filepath.Join(dir, "service-accounts.key")
	if err := os.WriteFile(signing, pem, 0o600); err != nil {
		return nil, err
	}
	opts := options.NewServerRunOptions()
	opts.Etcd.StorageConfig.Transport.ServerList = []string{"http://" + etcd}
	address := listener.Addr().(*net.TCPAddr)
	opts.SecureServing.Listener, opts.SecureServing.BindAddress, opts.SecureServing.BindPort = listener, address.IP, address.Port
	opts.SecureServing.ExternalAddress = address.IP
	opts.SecureServing.ServerCert.CertDirectory = filepath.Join(dir, "certificates")
	opts.ServiceClusterIPRanges = "10.0.0.0/16"
	opts.AllowPrivileged = true // who else may, is for Pod Security to say
	opts.EndpointReconcilerType = "none"
	opts.Authorization.Modes = []string{"RBAC"}
	opts.Authentication.ServiceAccounts.Issuers = []string{"https://kubernetes.default.svc"}
	opts.Authentication.ServiceAccounts.KeyFiles = []string{signing}
	opts.ServiceAccountSigningKeyFile = signing
	return opts, opts.GenericServerRunOptions.ComponentGlobalsRegistry.Set()
}

// serve returns when the server is ready; the function ends it and waits until it has ended.
func serve(ctx context.Context, opts *options.ServerRunOptions) (*rest.Config, func(), error) {
	completed, err := opts.Complete(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("complete options: %w", err)
	}
	if err := utilerrors.NewAggregate(completed.Validate()); err != nil {
		return nil, nil, fmt.Errorf("validate options: %w", err)
	}
	unfinished, err := app.NewConfig(completed)
	if err != nil {
		return nil, nil, err
	}
	config, err := unfinished.Complete()
	if err != nil {
		return nil, nil, err
	}
	chain, err := app.CreateServerChain(config)
	if err != nil {
		return nil, nil, err
	}
	prepared, err := chain.PrepareRun()
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- prepared.Run(ctx) }()
	client := rest.CopyConfig(chain.GenericAPIServer.LoopbackClientConfig)
	if err := ready(ctx, client, ended); err != nil {
		cancel()
		return nil, nil, err
	}
	return client, func() { cancel(); <-ended }, nil
}

// ready waits for /readyz; ended is the end of the server.
func ready(ctx context.Context, config *rest.Config, ended <-chan error) error {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	for tick := time.Tick(100 * time.Millisecond); ; {
		if answer, err := client.Get(config.Host + "/readyz"); err == nil {
			answer.Body.Close()
			if answer.StatusCode == 200 {
				return nil
			}
		}
		select {
		case <-tick:
		case err := <-ended:
			return errors.Join(errors.New("it ended before it was ready"), err)
		case <-ctx.Done():
			return fmt.Errorf("wait until it is ready: %w", ctx.Err())
		}
	}
}
