import Foundation
import Glibc
import TestSupport
import Testing

@testable import LanyardFoundations

/// A new file is whole or not there, and nothing that exists is replaced.
@Suite struct NewFileTests {
    private func make(_ path: String, _ text: String = "content") -> NewFile.MakeError? {
        Array(text.utf8).withUnsafeBytes { bytes in
            do throws(NewFile.MakeError) {
                try NewFile.make(path, content: bytes)
                return nil
            } catch {
                return error
            }
        }
    }

    private func names(in folder: TemporaryFolder) -> [String] {
        guard let stream = opendir(folder.path) else { return [] }
        defer { closedir(stream) }
        var names: [String] = []
        while let entry = readdir(stream) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name != ".", name != ".." { names.append(name) }
        }
        return names.sorted()
    }

    private func read(_ path: String) throws -> String { try String(contentsOfFile: path, encoding: .utf8) }

    @Test("it has the content and mode 0600, and nothing else is left")
    func made() throws {
        let folder = try TemporaryFolder()
        #expect(make(folder.file("new"), "text\n") == nil)
        #expect(try read(folder.file("new")) == "text\n")
        var status = stat()
        #expect(stat(folder.file("new"), &status) == 0 && status.st_mode & 0o7777 == 0o600)
        #expect(names(in: folder) == ["new"])
    }

    @Test("a file, a folder, a link that leads nowhere: the name is taken, and stays as it is")
    func taken() throws {
        let folder = try TemporaryFolder()
        try folder.write("file", "old")
        #expect(mkdir(folder.file("folder"), 0o700) == 0)
        #expect(symlink("/nonexistent/target", folder.file("link")) == 0)
        for name in ["file", "folder", "link"] { #expect(make(folder.file(name)) == .exists) }
        #expect(try read(folder.file("file")) == "old")
        #expect(names(in: folder) == ["file", "folder", "link"])
    }

    @Test("a folder that does not exist refuses it")
    func refused() throws {
        let folder = try TemporaryFolder()
        #expect(make(folder.file("none/new")) == .refused(ENOENT))
        #expect(NewFile.obstacle(inFolderOf: folder.file("none/new")) == ENOENT)
        #expect(NewFile.obstacle(inFolderOf: folder.file("new")) == nil)
        #expect(NewFile.obstacle(inFolderOf: "new") == nil)
    }
}
