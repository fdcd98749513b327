import TestSupport
import Testing

@testable import LanyardFoundations

/// Watches of files and what they have told. The minute of a slow check does not come: what is told was noticed.
final class FileChangeBench: Sendable {
    let loop: EventLoop
    let monitor: FileChangeMonitor
    let reads = Tally()
    private let files: FileReader
    private let watches = Guarded<[String: FileWatch]>([:])
    private let told = Told()

    private final class Told: Sendable { let words = Guarded<[String: [String]]>([:]) }

    /// - Parameter whenRead: called behind each read, on its thread.
    init(_ paths: [String] = [], whenRead: @escaping @Sendable (FileSnapshot) -> Void = { _ in }) throws {
        loop = try EventLoop(label: "test.changes")
        loop.start()
        monitor = FileChangeMonitor(on: loop)
        files = FileReader(noticing: monitor) { [reads] path, known in
            reads.add()
            let found = FileSnapshot.read(path, known: known)
            whenRead(found)
            return found
        }
        for path in paths { watch(path) }
    }

    deinit {
        for watch in watches.withLock({ $0.values }) { watch.stop() }
        loop.stop()
    }

    func watch(_ path: String) {
        let watch = FileWatch(path, by: files, on: loop) { [told] outcome in
            let word =
                switch outcome {
                case .success(let content): content.secret.withBytes { String(decoding: $0, as: UTF8.self) }
                case .failure(let error): "\(error)"
                }
            told.words.withLock { $0[path, default: []].append(word) }
        }
        watches.withLock { $0[path] = watch }
        watch.start()
    }

    func stop(_ path: String) { watches.withLock { $0.removeValue(forKey: path) }?.stop() }

    func isWatched(_ path: String) -> Bool { watches.withLock { $0[path] != nil } }

    func words(of path: String) -> [String] { told.words.withLock { $0[path] } ?? [] }

    /// Waits until the latest word is this one.
    func expect(_ word: String, of path: String, _ place: SourceLocation = #_sourceLocation) async throws {
        try await eventually("\(path) is told as \(word), not \(words(of: path))") {
            words(of: path).last == word
        }
    }

    /// Passes a slow check of all files, and what follows from it.
    func passSlowChecks() { loop.pass(SlowChecks.period * 2) }
}
