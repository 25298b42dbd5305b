// A collector of OpenTelemetry with one receiver and one exporter, made of its own parts.
package main

import (
	"context"
	"log"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/yamlprovider"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/otlphttpexporter"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry"
	"go.uber.org/zap"
)

// Of itself it tells only what it logs: what else it could would have clients of three clouds compiled.
func itself() telemetry.Factory {
	return telemetry.NewFactory(
		func() component.Config { return struct{}{} },
		telemetry.WithCreateLogger(func(context.Context, telemetry.LoggerSettings, component.Config) (*zap.Logger, component.ShutdownFunc, error) {
			logger, err := zap.NewDevelopment()
			return logger, func(context.Context) error { return nil }, err
		}),
	)
}

func components() (otelcol.Factories, error) {
	receives, exports := otlpreceiver.NewFactory(), otlphttpexporter.NewFactory()
	return otelcol.Factories{
		Receivers: map[component.Type]receiver.Factory{receives.Type(): receives},
		Exporters: map[component.Type]exporter.Factory{exports.Type(): exports},
		Telemetry: itself(),
	}, nil
}

func main() {
	settings := otelcol.CollectorSettings{
		BuildInfo: component.BuildInfo{Command: "collector", Version: "test"},
		Factories: components,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			ProviderFactories: []confmap.ProviderFactory{yamlprovider.NewFactory()},
			DefaultScheme:     "yaml",
		}},
	}
	if err := otelcol.NewCommand(settings).Execute(); err != nil {
		log.Fatal(err)
	}
}
