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
    /// By path.
    let contents: [String: Secret]

    /// Reads the files. Blocks as long as the disk does.
    ///
    /// - Throws: the first finding, with its route.
    package init(_ configuration: Configuration) throws(UpstreamTLSFiles.FileError) {
        var (files, contexts, contents) = ([UpstreamTLSFiles?](), [TLSClientContext?](), [String: Secret]())
        var authorities: [String: TLSAuthorities] = [:]
        for route in configuration.routes {
            let own = UpstreamTLSFiles(route.upstream)
            files.append(own)
            do {
                let read = try own?.read() ?? [:]
                contents.merge(read) { first, _ in first }
                contexts.append(try own?.context(from: read, sharing: &authorities))
            } catch {
                throw UpstreamTLSFiles.FileError(message: "route \(route.route.name): \(error.message)")
            }
        }
        (self.files, self.contexts, self.contents) = (files, contexts, contents)
        names = configuration.routes.map(\.route.name)
    }
}

/// Has upstreams verified, and client certificates shown, as their files say now.
///
/// A certificate and its key are two files. So a change is used when no file has changed for a moment. A file that cannot be used is
/// logged, and the previous one goes on. All state belongs to the loop's queue.
final class UpstreamTLSWatches: Watcher, @unchecked Sendable {
    /// A little longer than the interval of a watch: two files that change together are used together.
    private static let delay = FileWatch.interval + .milliseconds(700)

    private var tls: UpstreamTLS
    /// One for each route.
    private var targets: [UpstreamTarget]
    private let files = FileReader.ofWholeFiles(bytesMax: UpstreamTLSFiles.bytesMax)
    private let loop: EventLoop
    private let log: Logger
    private var contents: [String: Secret]
    private var changed: Set<String> = []
    /// By path.
    private var watches: [String: FileWatch] = [:]
    private lazy var deadline = Deadline(of: self)

    /// - Parameter targets: get the new contexts, one for each route.
    init(_ tls: UpstreamTLS, of targets: [UpstreamTarget], on loop: EventLoop, log: Logger) {
        self.tls = tls
        self.targets = targets
        self.loop = loop
        self.log = log
        contents = tls.contents
        super.init()
    }

    func start() {
        loop.post { [self] in startWatches() }
    }

    private func startWatches() {
        for path in contents.keys.sorted() where watches[path] == nil {
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
            let (former, formerTargets) = (contents, self.targets)
            (self.tls, self.targets, contents) = (tls, targets, tls.contents)
            // A new watch reports the present content first, so that a change since the read is not lost.
            for (path, watch) in watches where contents[path] != former[path] {
                watch.stop()
                watches[path] = nil
            }
            startWatches()
            for (index, target) in targets.enumerated() where formerTargets.contains(where: { $0 === target }) {
                guard let context = tls.contexts[index], let paths = tls.files[index]?.paths,
                    paths.contains(where: { former[$0] != contents[$0] })
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
            guard contents[path] != content.secret else { return }
            contents[path] = content.secret
            changed.insert(path)
            loop.set(deadline, at: loop.now + Self.delay)
        case .failure(let error): logFailure(error.message(path: path))
        }
    }

    override func due(_ deadline: Deadline) {
        let paths = changed
        changed = []
        var authorities: [String: TLSAuthorities] = [:]
        for (index, files) in tls.files.enumerated() {
            guard let files, !paths.isDisjoint(with: files.paths) else { continue }
            do {
                targets[index].replaceTLS(try files.context(from: contents, sharing: &authorities))
                log.notice(
                    "the TLS of an upstream uses changed files",
                    metadata: ["event": "upstream.tls.reloaded", "route": .string(tls.names[index])])
            } catch {
                logFailure("route \(tls.names[index]): \(error.message)")
            }
        }
    }

    private func logFailure(_ reason: String) {
        log.error(
            "a changed file of an upstream's TLS cannot be used: the previous one goes on",
            metadata: ["event": "upstream.tls.reload_failed", "reason": .string(reason)])
    }
}
