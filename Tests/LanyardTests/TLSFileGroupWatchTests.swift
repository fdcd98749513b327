import Glibc
import LanyardRequestPath
import Synchronization
import TestSupport
import Testing

@testable import Lanyard
@testable import LanyardFoundations

@Suite struct TLSFileGroupWatchTests {
    /// Counts what it is told.
    private final class Group: TLSFileGroupWatch, @unchecked Sendable {
        let contents = Guarded<[TLSFileContents]>([])

        override func use(
            _ contents: TLSFileContents, changed: Set<String>, in turn: borrowing FilePublication.Turn
        ) -> [String] {
            self.contents.withLock { $0.append(contents) }
            return Array(changed)
        }
    }

    #if DEBUG
    @Test("a watch of a group ends the process when another queue than its loop's calls it")
    func foreignQueue() async {
        await #expect(processExitsWith: .failure) {
            guard let loop = try? EventLoop(label: "test.foreign") else { exit(0) }
            Group([], TLSFileContents(), by: FilePublication(), on: loop).due(Deadline())
            exit(0)
        }
    }
    #endif

    @Test("a change of any file of the group is followed", arguments: ["cert.pem", "key.pem", "clients.pem"])
    func eachFile(_ changed: String) throws {
        let folder = try TemporaryFolder()
        let names = ["cert.pem", "key.pem", "clients.pem"]
        let paths = try names.map { try folder.write($0, "first") }
        // A process that another test has started has the files open until it executes its program: the first look would be repeated.
        try blockUntil("no process has a file open for writing") {
            paths.allSatisfy { FileSnapshot.read($0, known: nil).isAtRest(at: .ofMachine) }
        }
        let loop = try EventLoop(label: "test.group")
        let reader = FileReader()
        let group = Group(paths, try TLSFileContents(reading: paths), by: FilePublication(), on: loop)
        loop.start()
        loop.freezeTime()
        group.start(by: reader)
        defer {
            group.stop()
            reader.stop()
            loop.stop()
        }
        loop.settle()
        try folder.write(changed, "second")
        loop.pass(FileWatch.interval + FileSettling.settlingDelay + TLSFileContents.changeDelay - .nanoseconds(1))
        #expect(group.contents.withLock { $0.isEmpty })
        loop.pass(.nanoseconds(1))
        let used = try #require(group.contents.withLock { $0.last })
        #expect(used.byPath[folder.file(changed)]?.count == 6)
    }
}
