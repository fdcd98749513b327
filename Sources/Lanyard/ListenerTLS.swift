import LanyardFoundations
import LanyardRequestPath
import LanyardSettings
import Logging

/// The TLS of all listeners at the start: what their files have made.
package struct ListenerTLS: Sendable {
    /// One for each listener; nil: its clients speak plain HTTP.
    let files: [ListenerTLSFiles?]
    let contexts: [TLSServerContext?]
    /// Of each listener with TLS.
    let contents: [TLSFileContents?]
    /// Certificates that clients will refuse. An expired one does not prevent the start: after a reboot other listeners and the clients
    /// that do not verify would be cut off, too.
    package let warnings: [String]

    /// Reads the files. Blocks as long as the disk does.
    ///
    /// - Throws: the first finding, with its listener.
    package init(_ listeners: [ListenerSettings]) throws(TLSFileContents.FileError) {
        var (files, contexts, contents) = ([ListenerTLSFiles?](), [TLSServerContext?](), [TLSFileContents?]())
        var warnings: [String] = []
        for (index, listener) in listeners.enumerated() {
            let own = listener.tls.map(ListenerTLSFiles.init)
            do throws(TLSFileContents.FileError) {
                let read = try own.map { files throws(TLSFileContents.FileError) in
                    try TLSFileContents(reading: files.paths)
                }
                var context: TLSServerContext?
                if let own, let read { context = try own.context(from: read) }
                if let own, let context, let warning = own.warning(about: context) {
                    warnings.append("listeners[\(index)].tls: \(warning)")
                }
                files.append(own)
                contents.append(read)
                contexts.append(context)
            } catch {
                throw .init("listeners[\(index)].tls: \(error.message)")
            }
        }
        (self.files, self.contexts, self.contents, self.warnings) = (files, contexts, contents, warnings)
    }
}

/// Has listeners show the certificates, and trust the authorities, that their files hold now.
///
/// A certificate and its key are two files that change one after the other. So a change is used when no file has changed for a moment.
/// Files that cannot be used together are logged once, and the previous context goes on until they fit. All state belongs to the loop's
/// queue.
final class ListenerTLSWatches: Sendable {
    private struct State {
        var listeners: [ListenerSettings]
        /// One for each listener; nil: its clients speak plain HTTP.
        var watches: [ListenerTLSWatch?]
    }

    private let state: Guarded<State>
    private let files = FileReader.ofWholeFiles(bytesMax: TLSFileContents.bytesMax)
    private let path: RequestPath
    private let loop: EventLoop
    private let log: Logger

    /// - Parameter path: gets the new contexts.
    init(_ tls: ListenerTLS, _ listeners: [ListenerSettings], for path: RequestPath, on loop: EventLoop, log: Logger) {
        (self.path, self.loop, self.log) = (path, loop, log)
        let watches = listeners.indices.map { Self.watch(tls, listeners, $0, path, loop, log) }
        state = Guarded(State(listeners: listeners, watches: watches))
    }

    private static func watch(
        _ tls: ListenerTLS, _ listeners: [ListenerSettings], _ index: Int, _ path: RequestPath, _ loop: EventLoop,
        _ log: Logger
    ) -> ListenerTLSWatch? {
        guard let files = tls.files[index], let contents = tls.contents[index] else { return nil }
        return ListenerTLSWatch(index, "\(listeners[index].address)", files, contents, for: path, on: loop, log: log)
    }

    func start() { for watch in state.withLock(\.watches) { watch?.start(by: files) } }

    /// The contexts of listeners whose `tls` or whose files differ from before, by listener.
    func changes(_ tls: ListenerTLS, _ listeners: [ListenerSettings]) -> [Int: TLSServerContext] {
        let former = state.withLock { $0 }
        var changed: [Int: TLSServerContext] = [:]
        for index in listeners.indices {
            guard
                listeners[index].tls != former.listeners[index].tls
                    || tls.contents[index]?.byPath != former.watches[index]?.contentsInUse.byPath
            else { continue }
            changed[index] = tls.contexts[index]
        }
        return changed
    }

    /// Follows the files of a new configuration from here on.
    ///
    /// - Parameter changed: the listeners that have other files than before. Their contexts are in use already.
    func apply(_ tls: ListenerTLS, _ listeners: [ListenerSettings], _ changed: [Int: TLSServerContext]) {
        var watches = state.withLock(\.watches)
        for (index, context) in changed {
            watches[index]?.stop()
            watches[index] = Self.watch(tls, listeners, index, path, loop, log)
            // The former watch may have had a change to report before it was stopped.
            loop.post { [path] in path.setTLS(context, ofListener: index) }
            watches[index]?.start(by: files)
        }
        state.withLock { $0 = State(listeners: listeners, watches: watches) }
    }

    func stop() {
        files.stop()
        for watch in state.withLock(\.watches) { watch?.stop() }
    }
}

/// The files of one listener.
private final class ListenerTLSWatch: TLSFileGroupWatch, @unchecked Sendable {
    private let index: Int
    private let address: String
    private let files: ListenerTLSFiles
    private let path: RequestPath
    private let log: Logger
    /// What the listener's present context was made of.
    private let inUse: Guarded<TLSFileContents>

    init(
        _ index: Int, _ address: String, _ files: ListenerTLSFiles, _ contents: TLSFileContents, for path: RequestPath,
        on loop: EventLoop, log: Logger
    ) {
        self.index = index
        self.address = address
        self.files = files
        inUse = Guarded(contents)
        self.path = path
        self.log = log
        super.init(files.paths, contents, on: loop)
    }

    /// What the listener's present context was made of. From any thread.
    var contentsInUse: TLSFileContents { inUse.withLock { $0 } }

    override func use(_ contents: TLSFileContents) throws(TLSFileContents.FileError) {
        let context = try files.context(from: contents)
        path.setTLS(context, ofListener: index)
        inUse.withLock { $0 = contents }
        log.notice(
            "a listener uses its changed TLS files from now on",
            metadata: ["event": "listener.tls.reloaded", "address": .string(address)])
        if let warning = files.warning(about: context) { Self.log(warning, address, by: log) }
    }

    override func logFailure(_ reason: String) {
        log.error(
            "a listener's changed TLS files cannot be used: the previous ones go on",
            metadata: ["event": "listener.tls.failed", "address": .string(address), "reason": .string(reason)])
    }

    private static func log(_ warning: String, _ address: String, by log: Logger) {
        log.warning(
            "clients will refuse a listener's certificate",
            metadata: ["event": "listener.tls.warning", "address": .string(address), "reason": .string(warning)])
    }
}
