import LanyardFoundations
import LanyardSettings

/// The samples of the request path for `/metrics`. From any thread.
extension RequestPath {
    /// The memory of all buffers.
    package var buffers: BufferBudget { context.buffers }

    /// The counters of all shards, and the states of what they share.
    ///
    /// - Parameter perRoute: false: sums over all routes, and no states of a single one.
    package func samples(perRoute: Bool = true) -> [MetricSample] {
        let served = served.withLock { $0 }
        guard let configuration = served.first?.configuration else { return [] }
        var samples = Self.summed(
            zip(shards, served).flatMap { shard, routes in
                shard.counters.samples(of: routes.counters, perRoute: perRoute)
            })
        samples += certificateSamples + resolver.samples
        samples.append(MetricSample("lanyard_client_connections", value: Double(clientConnectionCount)))
        samples.append(MetricSample("lanyard_buffer_bytes", value: Double(context.buffers.count)))
        samples.append(MetricSample("lanyard_parked_requests", value: Double(context.parked.count)))
        for reason in IdleConnections.EvictionReason.allCases {
            let count = shards.reduce(0) { $0 + $1.idleConnections.evictionCount(reason) }
            samples.append(
                MetricSample(
                    "lanyard_upstream_idle_evictions", suffix: "_total", labels: [.init("reason", reason.rawValue)],
                    value: Double(count)))
        }
        samples += Self.endSamples(configuration)
        guard perRoute else {
            return samples + Self.connectionSamples(served.flatMap(\.distinctPools), [])
        }
        for route in configuration.routeList {
            let name = MetricSample.Label("route", route.settings.name)
            let isOpen = configuration.breakers[route.index].isOpen(at: .now)
            samples.append(MetricSample("lanyard_route_breaker_open", labels: [name], value: isOpen ? 1 : 0))
        }
        // Routes with one upstream have its connections in common.
        for (index, _) in served[0].poolsByFirstRoute {
            samples += Self.upstreamSamples(
                configuration.targets[index], configuration.routeList[index], served.map { $0.pools[index] })
        }
        return samples
    }

    /// HTTP/2 of all shards, for the status.
    package var http2Report: HTTP2Report {
        var report = HTTP2Report()
        for shard in shards {
            report.clients.add(shard.counters.http2.clients.report)
            report.upstreams.add(shard.counters.http2.upstreams.report)
        }
        let served = served.withLock { $0 }
        guard let configuration = served.first?.configuration else { return report }
        report.upstreamEnds = Self.endCounts(configuration)
        let downgraded = configuration.routeList.filter { configuration.targets[$0.index].needsHTTP1 }
        report.downgradedRoutes = downgraded.map(\.settings.name)
        return report
    }

    /// One sample for each name with its labels: the sum over all shards.
    private static func summed(_ all: [MetricSample]) -> [MetricSample] {
        var sums: [MetricSample] = []
        var places: [String: Int] = [:]
        for sample in all {
            // With the suffix: buckets, sum and count of a histogram are separate samples.
            let key = sample.name + sample.suffix + sample.labels.map { "|\($0.name)=\($0.value)" }.joined()
            if let place = places[key] {
                sums[place].value += sample.value
            } else {
                places[key] = sums.count
                sums.append(sample)
            }
        }
        return sums
    }

    /// When a certificate in use ends.
    ///
    /// - Parameter which: whose it is.
    package static func certificateSample(_ which: String, _ end: WallTime) -> MetricSample {
        MetricSample(
            "lanyard_tls_certificate_expiry_timestamp_seconds", labels: [.init("which", which)],
            value: Double(end.seconds))
    }

    /// How connections of HTTP/2 to upstreams have ended by errors, all routes together.
    private static func endCounts(_ configuration: ServedConfiguration) -> [String: Int] {
        var counts: [String: Int] = [:]
        var known: Set<ObjectIdentifier> = []
        for target in configuration.targets where known.insert(ObjectIdentifier(target)).inserted {
            counts.merge(target.endCounts) { $0 + $1 }
        }
        return counts
    }

    private static func endSamples(_ configuration: ServedConfiguration) -> [MetricSample] {
        var counts = ["goaway": 0, "enhance_your_calm": 0, "ping_timeout": 0]
        counts.merge(endCounts(configuration)) { $1 }
        return counts.sorted { $0.key < $1.key }.map { reason, count in
            MetricSample(
                "lanyard_upstream_http2_ends", suffix: "_total", labels: [.init("reason", reason)], value: Double(count)
            )
        }
    }

    /// - Parameter route: the first one with this upstream.
    private static func upstreamSamples(
        _ target: UpstreamTarget, _ route: Route, _ pools: [UpstreamPool]
    ) -> [MetricSample] {
        let name = MetricSample.Label("route", route.settings.name)
        var samples: [MetricSample] = []
        let trust = target.trust
        if let end = trust?.certificateExpiresAt {
            samples.append(certificateSample("route \(route.settings.name)", end))
        }
        for (reason, count) in trust?.failureCounts ?? [:] {
            samples.append(
                MetricSample(
                    "lanyard_upstream_tls_failures", suffix: "_total", labels: [name, .init("reason", reason)],
                    value: Double(count)))
        }
        let counters = UpstreamCounters()
        for pool in pools { counters.add(pool.counters) }
        return samples + counters.samples([name]) + connectionSamples(pools, [name])
    }

    private static func connectionSamples(_ pools: [UpstreamPool], _ labels: [MetricSample.Label]) -> [MetricSample] {
        let open = pools.reduce(0) { $0 + $1.open.value }
        let idle = pools.reduce(0) { $0 + $1.idleCount }
        return [("open", open), ("idle", idle)].map { state, value in
            MetricSample(
                "lanyard_upstream_connections", labels: labels + [.init("state", state)], value: Double(value))
        }
    }
}
