import LanyardConfiguration
import LanyardFoundations
import LanyardRequestPath
import LanyardSettings
import Logging

/// The credentials of routes' proxies (`credentials_file`) as their files were read.
struct ProxyCredentials: Sendable {
    /// Values of `Proxy-Authorization`, by path. A file that cannot be used is left out: no request passes its proxy until it can.
    let values: [String: Secret]

    /// Reads the files. Blocks as long as the disk does.
    init(_ routes: [Configuration.Route]) {
        var values: [String: Secret] = [:]
        for path in Set(routes.compactMap { $0.upstream.proxy?.credentialsFile }) {
            values[path] = try? Self.read(path).get()
        }
        self.values = values
    }

    private static func read(_ path: String) -> Result<Secret, SecretFile.ReadError> {
        check(Result { () throws(SecretFile.ReadError) in try SecretFile.read(path) })
    }

    /// Why a file cannot be used now; nil: it can.
    static func error(inFile path: String) -> SecretFile.ReadError? {
        if case .failure(let error) = read(path) { error } else { nil }
    }

    fileprivate static func check(_ outcome: FileWatch.Outcome) -> Result<Secret, SecretFile.ReadError> {
        Result { () throws(SecretFile.ReadError) in try ProxyCredential.value(of: outcome.get().secret) }
    }
}

/// Has the upstreams of one configuration show their proxies the credentials that the files hold, until a reload ends it.
///
/// A credential that cannot be read is not shown any more, and no connection is made: the operator may have replaced it after a leak.
final class ProxyCredentialWatches: Sendable {
    private let watches: [ProxyCredentialWatch]

    /// - Parameter targets: of the routes, each with the settings of its proxy.
    init(
        of targets: [UpstreamTarget], by publication: FilePublication, reading files: FileReader, on loop: EventLoop,
        log: Logger
    ) {
        var byFile: [String: [UpstreamTarget]] = [:]
        for target in targets {
            guard let file = target.settings.proxy?.credentialsFile else { continue }
            byFile[file, default: []].append(target)
        }
        watches = byFile.map { ProxyCredentialWatch($0, for: $1, by: publication, reading: files, on: loop, log: log) }
    }

    func start() { for watch in watches { watch.start() } }

    func stop() { for watch in watches { watch.stop() } }

    /// Publishes nothing from here on.
    func end(in turn: borrowing FilePublication.Turn) { for watch in watches { watch.end(in: turn) } }
}

/// One file of credentials.
private final class ProxyCredentialWatch: Sendable {
    private let file: String
    private let targets: [UpstreamTarget]
    private let publication: FilePublication
    private let files: FileReader
    private let loop: EventLoop
    private let log: Logger
    /// Another watch, or none, has its place. Changed in a turn of the publication.
    private let isEnded = Guarded(false)
    private let watch = Guarded<FileWatch?>(nil)

    init(
        _ file: String, for targets: [UpstreamTarget], by publication: FilePublication, reading files: FileReader,
        on loop: EventLoop, log: Logger
    ) {
        (self.file, self.targets, self.publication) = (file, targets, publication)
        (self.files, self.loop, self.log) = (files, loop, log)
    }

    /// Begins to watch. The present content is reported first. Call once.
    func start() {
        let watch = FileWatch(file, by: files, on: loop) { [weak self] in self?.publish($0) }
        self.watch.withLock { $0 = watch }
        watch.start()
    }

    func stop() { watch.withLock { $0 }?.stop() }

    func end(in _: borrowing FilePublication.Turn) {
        isEnded.withLock { $0 = true }
        stop()
    }

    private func publish(_ outcome: FileWatch.Outcome) {
        publication.turn { _ in
            guard !isEnded.withLock({ $0 }) else { return }
            let checked = ProxyCredentials.check(outcome)
            let value = try? checked.get()
            for target in targets { target.replaceProxyAuthorization(value) }
            guard case .failure(let error) = checked else { return }
            log.error(
                "the credential for a proxy cannot be used: no request passes the proxy",
                metadata: [
                    "event": "upstream.proxy_credential.failed",
                    "reason": .string(error.message(path: file)),
                ])
        }
    }
}
