// Package controller runs a controller of Kubernetes in one process of many.
package controller

import (
	"context"
	"time"

	"github.com/go-leadership/leadership"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Run reconciles ConfigMaps while the candidate leads. Each term has a manager of its own, since a manager can't be
// started again.
func Run(ctx context.Context, c *leadership.Candidate, kubernetes *rest.Config, reconciler func(ctrl.Manager, *leadership.Term) reconcile.Reconciler) error {
	return c.Run(ctx, func(ctx context.Context, term *leadership.Term) error {
		mgr, err := ctrl.NewManager(kubernetes, ctrl.Options{
			LeaderElection:          false,
			Controller:              config.Controller{SkipNameValidation: new(true)}, // the last term's had this name
			GracefulShutdownTimeout: new(time.Duration(-1)),                           // no limit
			Metrics:                 server.Options{BindAddress: "0"},                 // served outside of terms, too
		})
		if err != nil {
			return err
		}
		err = ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Complete(reconciler(mgr, term))
		if err != nil {
			return err
		}
		err = mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
			_, err := mgr.GetCache().GetInformer(ctx, &corev1.ConfigMap{}) // waits until the cache has synced
			if err != nil {
				return err
			}
			return term.Acknowledge(ctx)
		}))
		if err != nil {
			return err
		}
		return mgr.Start(ctx)
	})
}
