import Foundation
import Glibc
import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSettings
@testable import LanyardVault

/// `EarlierVersion/sessions` is a sealed store that the release before the one with variants has written, with the key
/// beside it. It has a user in each status.
@Suite struct EarlierVersionTests {
    private static let folder = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "EarlierVersion")

    private static func opened(in folder: TemporaryFolder) throws -> StoreFile {
        let bytes = try Data(contentsOf: Self.folder.appending(path: "sessions"))
        let key = try Data(contentsOf: Self.folder.appending(path: "store.key"))
        try bytes.write(to: URL(filePath: folder.file("sessions")))
        #expect(chmod(folder.file("sessions"), 0o600) == 0)
        let path = try #require(StorePath(folder.file("sessions")))
        return StoreFile(
            path, on: try SystemDisk(folder: path.folder, makesFolder: false),
            sealing: AESSealing(StoreSecret(.key, StoreSamples.secret(Array(key)))),
            fingerprintKey: StoreSamples.fingerprintKey)
    }

    @Test("a sealed store of the version before is read: each user has the status that its flags meant")
    func read() throws {
        let folder = try TemporaryFolder()
        let contents = try Self.opened(in: folder).read()
        #expect(contents == StoreSamples.version2)
        let statuses = contents.users.map { user in
            switch user.status {
            case .none: user.refused.map { "\(user.name) refused \($0.code ?? "")" } ?? "\(user.name) none"
            case .active(let session): "\(user.name) active \(session.id) \(session.tokens.others.count)"
            case .deleting(let session): "\(user.name) deleting \(session.id)"
            case .loggedOut: "\(user.name) loggedOut"
            }
        }
        #expect(
            statuses == [
                "alice active 11 0", "bob active 12 0", "carol deleting 13", "dave loggedOut",
                "erin refused InvalidPassword", "frank active 14 0", "grace none", "heidi loggedOut",
                "ivan active 15 0",
            ])
        #expect(contents["frank"]?.refused?.isSpent == true && contents["heidi"]?.refused != nil)
        #expect(contents.users.filter(\.isRefused).map(\.name) == ["erin", "heidi", "ivan"])
        #expect(contents.users.filter(\.isAuthenticated).map(\.name) == ["alice", "bob", "frank"])
    }

    @Test("it is written on as that version while no token has a variant, and as version 3 from then on")
    func write() throws {
        let folder = try TemporaryFolder()
        let file = try Self.opened(in: folder)
        let version2 = try StoreText.write(try file.read()).withBytes { Array($0) }
        #expect(version2.prefix(2) == [0, 2])
        var contents = try file.read()
        contents.users[0].status = .active(StoreSamples.sessionWithVariants)
        let version3 = try StoreText.write(contents).withBytes { Array($0) }
        #expect(version3.prefix(2) == [0, 3])
        #expect(try version3.withUnsafeBytes { try StoreText.read($0) } == contents)
    }
}
