import LanyardAdmin
import LanyardConfiguration
import LanyardFoundations
import LanyardRequestPath
import LanyardSettings
import Logging

/// The TLS of all routes' upstreams at the start: what their files have made, with the credentials for the proxies before them.
package struct UpstreamTLS: Sendable {
    /// One for each route; nil: its upstream does not speak TLS.
    let files: [UpstreamTLSFiles?]
    /// Names of the routes.
    let names: [String]
    private(set) var contexts: [TLSClientContext?]
    /// Of all files.
    private(set) var contents: TLSFileContents
    /// Client certificates that upstreams will refuse, and authorities that have ended. Neither prevents the start: other routes work.
    package let warnings: [ConfiguredFileWarning]
    let proxies: ProxyCredentials

    /// Reads the files. Blocks as long as the disk does.
    ///
    /// - Throws: the first finding, with its route.
    package init(_ configuration: Configuration) throws(ConfiguredFileError) {
        var (files, contexts, contents) = ([UpstreamTLSFiles?](), [TLSClientContext?](), TLSFileContents())
        var warnings: [ConfiguredFileWarning] = []
        var authorities: [String: TLSAuthorities] = [:]
        var made: [UpstreamSettings: Int] = [:]
        for (index, route) in configuration.routes.enumerated() {
            // Routes with one upstream have one context.
            if let former = made[route.upstream] {
                files.append(files[former])
                contexts.append(contexts[former])
                continue
            }
            made[route.upstream] = index
            let own = UpstreamTLSFiles(route.upstream)
            files.append(own)
            do throws(TLSFileContents.FileError) {
                try contents.read(own?.paths ?? [])
                let context = try own?.context(from: contents, sharing: &authorities)
                contexts.append(context)
                for (path, message) in own?.warnings(in: contents) ?? [] {
                    warnings.append(.init(.route(index), path: path, message))
                }
            } catch {
                throw .init(.route(index), path: error.path, error.message)
            }
        }
        (self.files, self.contexts, self.contents, self.warnings) = (files, contexts, contents, warnings)
        names = configuration.routes.map(\.route.name)
        proxies = ProxyCredentials(configuration.routes)
    }

    /// With what others have found in the same files later.
    func renewed(from others: [TLSFileContents]) -> UpstreamTLS {
        var renewed = self
        let changed = renewed.contents.renew(from: others)
        guard !changed.isEmpty else { return renewed }
        var authorities: [String: TLSAuthorities] = [:]
        // By the former one: routes with one upstream have one.
        var made: [ObjectIdentifier: TLSClientContext] = [:]
        for (index, own) in files.enumerated() {
            guard let own, let former = contexts[index], !changed.isDisjoint(with: own.paths) else { continue }
            let known = made[ObjectIdentifier(former)]
            guard let context = known ?? (try? own.context(from: renewed.contents, sharing: &authorities)) else {
                continue
            }
            made[ObjectIdentifier(former)] = context
            renewed.contexts[index] = context
        }
        return renewed
    }
}

/// Has upstreams verified, and client certificates and credentials for proxies shown, as their files say now.
///
/// A certificate and its key are two files. So a change is used when no file has changed for a moment. A file that cannot be used is
/// logged, and the previous one stays.
final class UpstreamTLSWatches: Sendable {
    private let current: Guarded<UpstreamTLSWatch>
    private let proxies: Guarded<ProxyCredentialWatches>
    private let files: FileReader
    private let credentials: FileReader
    private let makeWatch: @Sendable (UpstreamTLS, [UpstreamTarget]) -> UpstreamTLSWatch
    private let makeProxyWatches: @Sendable ([UpstreamTarget]) -> ProxyCredentialWatches

    /// - Parameters:
    ///   - targets: get the new contexts, one for each route.
    ///   - changes: of files.
    init(
        _ tls: UpstreamTLS, of targets: [UpstreamTarget], by publication: FilePublication,
        noticing changes: FileChangeMonitor = FileChangeMonitor(), on loop: EventLoop, log: Logger
    ) {
        files = .ofWholeFiles(bytesMax: TLSFileContents.bytesMax, noticing: changes)
        makeWatch = { UpstreamTLSWatch($0, of: $1, by: publication, on: loop, log: log) }
        current = Guarded(makeWatch(tls, targets))
        let credentials = FileReader(noticing: changes)
        self.credentials = credentials
        makeProxyWatches = {
            ProxyCredentialWatches(of: $0, by: publication, reading: credentials, on: loop, log: log)
        }
        proxies = Guarded(makeProxyWatches(targets))
    }

    func start() {
        watch.start(by: files)
        proxies.withLock { $0 }.start()
    }

    private var watch: UpstreamTLSWatch { current.withLock { $0 } }

    /// What the upstreams' contexts were made of. From any thread.
    var contentsInUse: TLSFileContents { watch.contentsInUse }

    /// The client certificates in use. From any thread.
    var certificates: [ProgramConditions.Certificate] { watch.certificates }

    /// The contexts of routes whose files hold something else than what is in use, by route.
    func changes(_ tls: UpstreamTLS) -> [Int: TLSClientContext] {
        let inUse = contentsInUse
        var changed: [Int: TLSClientContext] = [:]
        for (index, files) in tls.files.enumerated() {
            guard let files, files.paths.contains(where: { inUse.byPath[$0] != tls.contents.byPath[$0] }) else {
                continue
            }
            changed[index] = tls.contexts[index]
        }
        return changed
    }

    /// Follows the files of a new configuration from here on. In the turn that hands the routes over.
    ///
    /// - Parameter targets: of its routes.
    func follow(_ tls: UpstreamTLS, of targets: [UpstreamTarget], in turn: borrowing FilePublication.Turn) {
        let (former, next) = (watch, makeWatch(tls, targets))
        former.end(in: turn)
        current.withLock { $0 = next }
        next.start(by: files)
        proxies.withLock { $0 }.end(in: turn)
        let others = makeProxyWatches(targets)
        proxies.withLock { $0 = others }
        others.start()
    }

    func stop() {
        files.stop()
        credentials.stop()
        watch.stop()
        proxies.withLock { $0 }.stop()
    }

    static func log(_ warning: String, by log: Logger) {
        log.warning(
            "a certificate for an upstream is not valid",
            metadata: ["event": "upstream.tls.warning", "reason": .string(warning)])
    }
}

/// The files of all upstreams of one configuration.
private final class UpstreamTLSWatch: TLSFileGroupWatch, @unchecked Sendable {
    private struct Route {
        /// nil: its upstream does not speak TLS.
        let files: UpstreamTLSFiles?
        let name: String
        let target: UpstreamTarget
    }

    private let routes: [Route]
    private let log: Logger

    init(
        _ tls: UpstreamTLS, of targets: [UpstreamTarget], by publication: FilePublication, on loop: EventLoop,
        log: Logger
    ) {
        // Without the contexts, which hold private keys and the sessions of the start.
        routes = zip(zip(tls.files, tls.names), targets).map { Route(files: $0.0, name: $0.1, target: $1) }
        self.log = log
        super.init(Array(tls.contents.byPath.keys), tls.contents, by: publication, on: loop)
    }

    /// The client certificates in use, and those that the upstreams have shown last. From any thread.
    var certificates: [ProgramConditions.Certificate] {
        routes.flatMap { route -> [ProgramConditions.Certificate] in
            let own = route.target.trust?.certificateExpiresAt.flatMap { end in
                route.files?.certificateFile.map {
                    ProgramConditions.Certificate(owner: "route \(route.name)", file: $0, expiresAt: end)
                }
            }
            let peer = route.target.trust?.peerCertificateExpiresAt.map {
                ProgramConditions.Certificate(owner: "the upstream of route \(route.name)", file: nil, expiresAt: $0)
            }
            return [own, peer].compactMap(\.self)
        }
    }

    override func use(
        _ contents: TLSFileContents, changed: Set<String>, in turn: borrowing FilePublication.Turn
    ) -> [String] {
        var used: [String] = []
        var authorities: [String: TLSAuthorities] = [:]
        for route in routes {
            guard let files = route.files, !changed.isDisjoint(with: files.paths) else { continue }
            do throws(TLSFileContents.FileError) {
                let context = try files.context(from: contents, sharing: &authorities)
                route.target.replaceTLS(context)
                used += files.paths
                log.notice(
                    "the TLS of an upstream uses changed files",
                    metadata: ["event": "upstream.tls.reloaded", "route": .string(route.name)])
                for (_, message) in files.warnings(in: contents) {
                    UpstreamTLSWatches.log("route \(route.name): \(message)", by: log)
                }
            } catch {
                logFailure("route \(route.name): \(error.message)")
            }
        }
        return used
    }

    override func logFailure(_ reason: String) {
        log.error(
            "a changed file of an upstream's TLS cannot be used: the previous one stays in use",
            metadata: ["event": "upstream.tls.reload_failed", "reason": .string(reason)])
    }
}
