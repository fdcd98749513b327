import LanyardConfiguration
import LanyardFoundations
import LanyardRequestPath
import LanyardSettings
import Logging

/// The TLS of all routes' upstreams at the start: what their files have made.
package struct UpstreamTLS: Sendable {
    /// One for each route; nil: its upstream does not speak TLS.
    let files: [UpstreamTLSFiles?]
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
    }
}

/// Has upstreams verified, and client certificates shown, as their files say now.
///
/// A certificate and its key are two files. So a change is used when no file has changed for a moment. A file that cannot be used is
/// logged, and the previous one goes on. All state belongs to the loop's queue.
final class UpstreamTLSWatches: Watcher, @unchecked Sendable {
    /// A little longer than the interval of a watch: two files that change together are used together.
    private static let delay = FileWatch.interval + .milliseconds(700)

    private let names: [String]
    private let tls: UpstreamTLS
    private let path: RequestPath
    private let files = FileReader.ofWholeFiles(bytesMax: UpstreamTLSFiles.bytesMax)
    private let loop: EventLoop
    private let log: Logger
    private var contents: [String: Secret]
    private var changed: Set<String> = []
    private var watches: [FileWatch] = []
    private lazy var deadline = Deadline(of: self)

    /// - Parameter path: gets the new contexts.
    init(_ tls: UpstreamTLS, routes: [String], for path: RequestPath, on loop: EventLoop, log: Logger) {
        names = routes
        self.tls = tls
        self.path = path
        self.loop = loop
        self.log = log
        contents = tls.contents
        super.init()
    }

    func start() {
        loop.post { [self] in
            watches = contents.keys.sorted().map { path in
                FileWatch(path, by: files, on: loop) { [weak self] in self?.receive($0, of: path) }
            }
            for watch in watches { watch.start() }
        }
    }

    func stop() {
        files.stop()
        loop.post { [self] in
            for watch in watches { watch.stop() }
            watches = []
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
                path.setTLS(try files.context(from: contents, sharing: &authorities), ofRoute: index)
                log.notice(
                    "the TLS of an upstream uses changed files",
                    metadata: ["event": "upstream.tls.reloaded", "route": .string(names[index])])
            } catch {
                logFailure("route \(names[index]): \(error.message)")
            }
        }
    }

    private func logFailure(_ reason: String) {
        log.error(
            "a changed file of an upstream's TLS cannot be used: the previous one goes on",
            metadata: ["event": "upstream.tls.reload_failed", "reason": .string(reason)])
    }
}
