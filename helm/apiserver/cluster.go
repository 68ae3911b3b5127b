package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"
)

// cluster applies objects. One request goes on at a time: warnings are of the last one.
type cluster struct {
	client     dynamic.Interface
	kinds      *restmapper.DeferredDiscoveryRESTMapper
	warnings   []string
	namespaces map[string]bool
}

// result is what the server said of an object; err is nil when it was taken.
type result struct {
	kind, object string
	err          error
}

func connect(config *rest.Config) (*cluster, error) {
	c := &cluster{namespaces: map[string]bool{}}
	config = rest.CopyConfig(config)
	config.WarningHandler = c
	config.QPS = -1
	found, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	c.kinds = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(found))
	c.client, err = dynamic.NewForConfig(config)
	return c, err
}

// HandleWarningHeader is how the client hands over what the server warns of.
func (c *cluster) HandleWarningHeader(_ int, _, text string) { c.warnings = append(c.warnings, text) }

// apply applies the objects of a file, in the file's order, and in dry run the pods that will be made of them. The error is not the server's.
func (c *cluster) apply(ctx context.Context, namespace, file string, dry bool) ([]result, error) {
	if err := c.makeNamespace(ctx, namespace); err != nil {
		return nil, fmt.Errorf("make namespace %s: %w", namespace, err)
	}
	opened, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	var results []result
	for documents := utilyaml.NewYAMLReader(bufio.NewReader(opened)); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return results, nil
		} else if err != nil {
			return nil, err
		}
		var object unstructured.Unstructured
		if err := yaml.Unmarshal(document, &object.Object); err != nil {
			return nil, err
		}
		if len(object.Object) == 0 {
			continue
		}
		// What helm makes anew each time is never an upgrade of itself.
		_, hook := object.GetAnnotations()["helm.sh/hook"]
		results = append(results, result{object.GetKind(), describe(&object), c.send(ctx, namespace, &object, document, dry || hook)})
		for _, made := range madeOf(&object) {
			sent, err := yaml.Marshal(made)
			if err != nil {
				return nil, err
			}
			results = append(results, result{made.GetKind(), describe(made) + " of " + describe(&object), c.send(ctx, namespace, made, sent, true)})
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
}

func describe(object *unstructured.Unstructured) string {
	return object.GetKind() + " " + object.GetName()
}

// send sends the document as it was written: the server sees fields that come twice or are not known.
func (c *cluster) send(ctx context.Context, namespace string, object *unstructured.Unstructured, document []byte, dry bool) error {
	mapping, err := c.find(ctx, object.GroupVersionKind())
	if err != nil {
		return err
	}
	var resource dynamic.ResourceInterface = c.client.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		resource = c.client.Resource(mapping.Resource).Namespace(namespace)
	}
	force := true
	options := metav1.PatchOptions{FieldManager: "chainify", Force: &force, FieldValidation: metav1.FieldValidationStrict}
	if dry {
		options.DryRun = []string{metav1.DryRunAll}
	}
	c.warnings = nil
	if _, err := resource.Patch(ctx, object.GetName(), types.ApplyPatchType, document, options); err != nil {
		return err
	}
	if len(c.warnings) > 0 {
		return fmt.Errorf("taken with a warning: %s", strings.Join(c.warnings, "; "))
	}
	return nil
}

// find waits for kinds whose definition was just taken.
func (c *cluster) find(ctx context.Context, kind schema.GroupVersionKind) (*meta.RESTMapping, error) {
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		mapping, err := c.kinds.RESTMapping(kind.GroupKind(), kind.Version)
		if !meta.IsNoMatchError(err) || time.Now().After(end) || ctx.Err() != nil {
			return mapping, err
		}
		c.kinds.Reset()
	}
}

// makeNamespace makes it as a cluster does, with the service account that a controller would add.
func (c *cluster) makeNamespace(ctx context.Context, name string) error {
	if c.namespaces[name] {
		return nil
	}
	c.namespaces[name] = true
	for _, document := range []string{
		"{apiVersion: v1, kind: Namespace, metadata: {name: " + name + ", labels: {pod-security.kubernetes.io/enforce: restricted}}}",
		"{apiVersion: v1, kind: ServiceAccount, metadata: {name: default}}",
	} {
		var object unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			return err
		}
		if err := c.send(ctx, name, &object, []byte(document), false); err != nil {
			return err
		}
	}
	return nil
}

// madeOf is what controllers will make of the object: its pod, which Pod Security refuses where it only warns of a template, and the pod's claims.
func madeOf(object *unstructured.Unstructured) (made []*unstructured.Unstructured) {
	template, found, _ := unstructured.NestedMap(object.Object, "spec", "template")
	if !found {
		template, found, _ = unstructured.NestedMap(object.Object, "spec", "jobTemplate", "spec", "template")
	}
	if !found {
		return nil
	}
	pod := &unstructured.Unstructured{Object: template}
	pod.SetAPIVersion("v1")
	pod.SetKind("Pod")
	pod.SetName(object.GetName() + "-0")
	claims, _, _ := unstructured.NestedSlice(object.Object, "spec", "volumeClaimTemplates")
	volumes, _, _ := unstructured.NestedSlice(template, "spec", "volumes")
	for _, template := range claims {
		claim := &unstructured.Unstructured{Object: template.(map[string]any)}
		volume := claim.GetName()
		claim.SetName(volume + "-" + pod.GetName())
		made = append(made, claim)
		volumes = append(volumes, map[string]any{"name": volume, "persistentVolumeClaim": map[string]any{"claimName": claim.GetName()}})
	}
	_ = unstructured.SetNestedSlice(template, volumes, "spec", "volumes") // a path that was read above
	return append(made, pod)
}
