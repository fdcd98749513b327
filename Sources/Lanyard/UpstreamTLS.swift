import LanyardConfiguration
import LanyardFoundations
import LanyardRequestPath
import LanyardSettings
import Logging

/// The TLS of all routes' upstreams at the start: what their files have made.
package struct UpstreamTLS: Sendable {
    /// One for each route; nil: its upstream does not speak TLS.
    let files: [UpstreamTLSFiles?]
    /// Names of the routes.
    let names: [String]
    let contexts: [TLSClientContext?]
    /// Of all files.
    let contents: TLSFileContents
    /// Client certificates that upstreams will refuse. An expired one does not prevent the start: other routes go on.
    package let warnings: [String]

    /// Reads the files. Blocks as long as the disk does.
    ///
    /// - Throws: the first finding, with its route.
    package init(_ configuration: Configuration) throws(TLSFileContents.FileError) {
        var (files, contexts, contents) = ([UpstreamTLSFiles?](), [TLSClientContext?](), TLSFileContents())
        var warnings: [String] = []
        var authorities: [String: TLSAuthorities] = [:]
        for route in configuration.routes {
            let own = UpstreamTLSFiles(route.upstream)
            files.append(own)
            do throws(TLSFileContents.FileError) {
                try contents.read(own?.paths ?? [])
                let context = try own?.context(from: contents, sharing: &authorities)
                contexts.append(context)
                if let own, let context, let warning = own.warning(about: context) {
                    warnings.append("route \(route.route.name): \(warning)")
                }
            } catch {
                throw .init("route \(route.route.name): \(error.message)")
            }
        }
        (self.files, self.contexts, self.contents, self.warnings) = (files, contexts, contents, warnings)
        names = configuration.routes.map(\.route.name)
    }
}

/// Has upstreams verified, and client certificates shown, as their files say now.
///
/// A certificate and its key are two files. So a change is used when no file has changed for a moment. A file that cannot be used is
/// logged, and the previous one goes on. All state belongs to the loop's queue.
final class UpstreamTLSWatches: Watcher, @unchecked Sendable {
    private struct Route {
        /// nil: its upstream does not speak TLS.
        let files: UpstreamTLSFiles?
        let name: String
        let target: UpstreamTarget
    }

    private var routes: [Route]
    private let files = FileReader.ofWholeFiles(bytesMax: TLSFileContents.bytesMax)
    private let loop: EventLoop
    private let log: Logger
    private var contents: TLSFileContents
    private var changed: Set<String> = []
    /// By path.
    private var watches: [String: FileWatch] = [:]
    private lazy var deadline = Deadline(of: self)

    /// - Parameter targets: get the new contexts, one for each route.
    init(_ tls: UpstreamTLS, of targets: [UpstreamTarget], on loop: EventLoop, log: Logger) {
        routes = Self.routes(tls, targets)
        self.loop = loop
        self.log = log
        contents = tls.contents
        super.init()
    }

    /// Without the contexts, which hold private keys and the sessions of the start.
    private static func routes(_ tls: UpstreamTLS, _ targets: [UpstreamTarget]) -> [Route] {
        zip(zip(tls.files, tls.names), targets).map { Route(files: $0.0, name: $0.1, target: $1) }
    }

    func start() {
        loop.post { [self] in startWatches() }
    }

    private func startWatches() {
        for path in contents.byPath.keys.sorted() where watches[path] == nil {
            let watch = FileWatch(path, by: files, on: loop) { [weak self] in self?.receive($0, of: path) }
            watches[path] = watch
            watch.start()
        }
    }

    /// Follows the files of a new configuration from here on.
    ///
    /// - Parameters:
    ///   - tls: of its routes.
    ///   - targets: of its routes. A target that was followed before gets its context only if a file has changed.
    func apply(_ tls: UpstreamTLS, of targets: [UpstreamTarget]) {
        loop.post { [self] in
            let (former, formerRoutes) = (contents.byPath, routes)
            (routes, contents) = (Self.routes(tls, targets), tls.contents)
            // A new watch reports the present content first, so that a change since the read is not lost.
            for (path, watch) in watches where contents.byPath[path] != former[path] {
                watch.stop()
                watches[path] = nil
            }
            startWatches()
            for (index, target) in targets.enumerated() where formerRoutes.contains(where: { $0.target === target }) {
                guard let context = tls.contexts[index], let paths = tls.files[index]?.paths,
                    paths.contains(where: { former[$0] != contents.byPath[$0] })
                else { continue }
                target.replaceTLS(context)
            }
        }
    }

    func stop() {
        files.stop()
        loop.post { [self] in
            for watch in watches.values { watch.stop() }
            watches = [:]
            loop.drop(deadline)
        }
    }

    private func receive(_ outcome: FileWatch.Outcome, of path: String) {
        switch outcome {
        case .success(let content):
            guard contents.replace(path, by: content.secret) else { return }
            changed.insert(path)
            loop.set(deadline, at: loop.now + TLSFileContents.changeDelay)
        case .failure(let error): logFailure(error.message(path: path))
        }
    }

    override func due(_ deadline: Deadline) {
        let paths = changed
        changed = []
        var authorities: [String: TLSAuthorities] = [:]
        for route in routes {
            guard let files = route.files, !paths.isDisjoint(with: files.paths) else { continue }
            do throws(TLSFileContents.FileError) {
                let context = try files.context(from: contents, sharing: &authorities)
                route.target.replaceTLS(context)
                log.notice(
                    "the TLS of an upstream uses changed files",
                    metadata: ["event": "upstream.tls.reloaded", "route": .string(route.name)])
                if let warning = files.warning(about: context) {
                    Self.log(["route \(route.name): \(warning)"], by: log)
                }
            } catch {
                logFailure("route \(route.name): \(error.message)")
            }
        }
    }

    /// Logs warnings about client certificates.
    static func log(_ warnings: [String], by log: Logger) {
        for warning in warnings {
            log.warning(
                "an upstream will refuse a client certificate",
                metadata: ["event": "upstream.tls.warning", "reason": .string(warning)])
        }
    }

    private func logFailure(_ reason: String) {
        log.error(
            "a changed file of an upstream's TLS cannot be used: the previous one goes on",
            metadata: ["event": "upstream.tls.reload_failed", "reason": .string(reason)])
    }
}
