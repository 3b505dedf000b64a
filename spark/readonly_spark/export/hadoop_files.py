"""Files of a table or a checkpoint in object stores and HDFS, through Hadoop in Spark's JVM."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JError

from readonly_spark.export.errors import ExportError

if TYPE_CHECKING:
    from collections.abc import Callable


_CONDITIONAL: Final = "fs.option.create.conditional.overwrite"
"""S3A's option for PUT with If-None-Match (Hadoop 3.4.2, HADOOP-19256)."""

_RENAMED: Final = {"hdfs", "viewfs", "file"}
"""Schemes whose readers see incomplete files, so files are renamed into place. Elsewhere a file appears when it is complete."""

_THERE: Final = {
    "org.apache.hadoop.fs.FileAlreadyExistsException",
    "org.apache.hadoop.fs.s3a.RemoteFileChangedException",
    "org.apache.hadoop.fs.PathExistsException",
}
_UNCOMMITTED: Final = "/_temporary/"
"""Folder of Hadoop's FileOutputCommitter."""

_MISSING_CLASS: Final = ("UnsupportedFileSystemException", "ClassNotFoundException", "NoClassDefFoundError")
_NO_JARS: Final = (
    "; the jars of this file system are missing: set --jars or PULSAR_READONLY_SPARK_JARS (the spark image has those of s3a), or "
    "let Spark download them with --conf spark.jars.packages"
)

_LISTED: Final = re.compile(r"Status\{path=(.*?); isDirectory=false; ", re.DOTALL)
"""A file in the text of a list of FileStatus. Spark escapes = in the names of partitions, so the end is unambiguous."""

_NOT_THERE: Final = "java.io.FileNotFoundException"


class HadoopFiles:
    """A folder by its URI; see files.Files.

    Args:
        where: the folder in the user's form.
        spark: the session, with the settings of the file system.

    Raises:
        ExportError: the folder cannot be reached.
    """

    def __init__(self, where: str, spark: Any) -> None:
        self.where = where
        self._jvm: Any = spark._jvm  # noqa: SLF001  py4j's access to the JVM
        self._gateway: Any = spark.sparkContext._gateway  # noqa: SLF001
        configuration = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001
        self._root = where.rstrip("/")
        self._configuration: Any = configuration
        try:
            root = self._jvm.org.apache.hadoop.fs.Path(self._root)
            self._fs: Any = root.getFileSystem(configuration)
            self._scheme = str(self._fs.getScheme())
        except Py4JError as error:
            remedy = _NO_JARS if any(name in str(error) for name in _MISSING_CLASS) else ""
            raise ExportError(f"{where} cannot be reached: {_message(error)}{remedy}") from None

    @property
    def conditional(self) -> bool:
        """Whether `create` is one conditional write of an object store."""
        return bool(self._fs.hasPathCapability(self._path(""), _CONDITIONAL))

    @property
    def bucket_and_key(self) -> tuple[str, str]:
        """The bucket of an object store, and the folder's key in it without slashes at its ends."""
        uri = self._path("").toUri()
        return str(uri.getHost()), str(uri.getPath()).strip("/")

    def changed_settings(self, prefix: str) -> dict[str, str]:
        """Return the settings of the file system that differ from Hadoop's defaults, without the prefix of their names.

        The file system has those of its bucket in the place of general ones.
        """
        defaults = self._jvm.org.apache.hadoop.conf.Configuration(False)
        defaults.addResource("core-default.xml")
        found = self._fs.getConf().getPropsWithPrefix(prefix)
        found.entrySet().removeAll(defaults.getPropsWithPrefix(prefix).entrySet())
        return {str(name): str(found[name]) for name in list(found)}

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self._root}/{name}" if name else self._root)

    def read(self, name: str) -> bytes | None:
        """See Files."""
        try:
            opened = self._fs.open(self._path(name))
            try:
                return bytes(opened.readAllBytes())
            finally:
                opened.close()
        except Py4JError as error:
            if _kind(error) == _NOT_THERE:
                return None
            raise self._failed(name, error) from None

    def write(self, name: str, content: bytes) -> None:
        """See Files."""
        try:
            if self._scheme not in _RENAMED:
                self._put(self._fs.create(self._path(name), True), content)
                return
            folder, _, last = name.rpartition("/")
            draft = self._path(f"{folder}/.{last}.new".lstrip("/"))
            self._put(self._fs.create(draft, True), content)
            rename: Any = self._jvm.org.apache.hadoop.fs.Options.Rename
            options = self._gateway.new_array(rename, 1)
            options[0] = rename.OVERWRITE
            uri = self._fs.getUri()
            context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(uri, self._configuration)
            context.rename(draft, self._path(name), options)
        except Py4JError as error:
            raise self._failed(name, error) from None

    def create(self, name: str, content: bytes) -> bool:
        """See Files.

        Raises:
            ExportError: the object store does not support conditional writes.
        """
        path = self._path(name)
        try:
            if self.conditional:
                builder = self._fs.createFile(path).overwrite(False)
                made = builder.must(_CONDITIONAL, "true").build()
            elif self._scheme.startswith("s3"):
                raise ExportError(f"{self.where}: locks on S3 require conditional writes; use Hadoop 3.4.2 or later")
            else:
                made = self._fs.create(path, False)
            self._put(made, content)
        except Py4JError as error:
            if _kind(error) in _THERE:
                return False
            raise self._failed(name, error) from None
        return True

    def remove(self, name: str) -> None:
        """See Files."""
        try:
            self._fs.delete(self._path(name), False)
        except Py4JError as error:
            raise self._failed(name, error) from None

    def remove_folder(self, name: str) -> None:
        """Remove a folder with its content if it exists."""
        try:
            self._fs.delete(self._path(name), True)
        except Py4JError as error:
            raise self._failed(name, error) from None

    def names(self, folder: str) -> list[str]:
        """See Files."""
        try:
            return sorted(str(status.getPath().getName()) for status in self._fs.listStatus(self._path(folder)))
        except Py4JError as error:
            if _kind(error) == _NOT_THERE:
                return []
            raise self._failed(folder, error) from None

    def changed(self, name: str) -> int | None:
        """See Files."""
        try:
            return int(self._fs.getFileStatus(self._path(name)).getModificationTime())
        except Py4JError as error:
            if _kind(error) == _NOT_THERE:
                return None
            raise self._failed(name, error) from None

    def first(self, ignored: Callable[[str], bool]) -> str | None:
        """See Files."""
        try:
            base = str(self._fs.makeQualified(self._path("")).toUri().getPath()).rstrip("/")
            found = self._fs.listFiles(self._path(""), True)
            while found.hasNext():
                name = str(found.next().getPath().toUri().getPath())[len(base) :].lstrip("/")
                if not name:
                    raise ExportError(f"--to {self.where} is a file; it must be a folder")
                if not _below(name, ignored):
                    return name
        except Py4JError as error:
            if _kind(error) == _NOT_THERE:
                return None
            raise self._failed("", error) from None
        return None

    def uris(self, suffix: str) -> list[str]:
        """Return the URIs of all files at any depth whose name ends with a suffix, in order, not percent-encoded.

        Files of Spark's uncommitted tasks are left out: a task that was given up may still write there.
        """
        found = []
        try:
            files = self._fs.listFiles(self._path(""), True)
            while files.hasNext():
                uri = str(files.next().getPath().toString())
                if uri.endswith(suffix) and _UNCOMMITTED not in uri:
                    # Hadoop writes file:/a, and other readers of URIs file:///a.
                    found.append(f"file://{uri[5:]}" if uri.startswith("file:/") and uri[6:7] != "/" else uri)
        except Py4JError as error:
            if _kind(error) == _NOT_THERE:
                return []
            raise self._failed("", error) from None
        return sorted(found)

    def listing(self) -> list[str]:
        """Return the names of all files at any depth, in one call of the JVM: a table may have very many."""
        try:
            base = f"{self._fs.makeQualified(self._path('')).toString()}/"
            found = self._fs.listFiles(self._path(""), True)
            text = str(self._jvm.org.apache.hadoop.util.functional.RemoteIterators.toList(found).toString())
        except Py4JError as error:
            if _kind(error) == _NOT_THERE:
                return []
            raise self._failed("", error) from None
        return [path.removeprefix(base) for path in _LISTED.findall(text) if path.startswith(base)]

    def tail(self, name: str, size: int) -> bytes:
        """Return the last bytes of a file, at most so many."""
        try:
            start = max(int(self._fs.getFileStatus(self._path(name)).getLen()) - size, 0)
            opened = self._fs.open(self._path(name))
            try:
                opened.seek(start)
                return bytes(opened.readAllBytes())
            finally:
                opened.close()
        except Py4JError as error:
            raise self._failed(name, error) from None

    @staticmethod
    def _put(opened: Any, content: bytes) -> None:
        try:
            opened.write(bytearray(content))
        finally:
            opened.close()

    def _failed(self, name: str, error: Py4JError) -> ExportError:
        return ExportError(f"{self._root}/{name}: {_message(error)}")


def _below(name: str, ignored: Callable[[str], bool]) -> bool:
    """Return whether a file or one of its folders is ignored."""
    parts = name.split("/")
    return any(ignored("/".join(parts[: count + 1])) for count in range(len(parts)))


def _kind(error: Py4JError) -> str:
    thrown = getattr(error, "java_exception", None)
    return "" if thrown is None else str(thrown.getClass().getName())


def _message(error: Py4JError) -> str:
    """Return the error in one line."""
    thrown = getattr(error, "java_exception", None)
    text = f"Spark's JVM does not answer: {error}" if thrown is None else f"{_kind(error)}: {thrown.getMessage()}"
    return (text.splitlines() or [""])[0]
