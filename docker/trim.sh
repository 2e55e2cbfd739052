#!/bin/sh
# trim.sh DIR: take away what an installed Odradek never loads: headers, tests, debug symbols, and the parts of Arrow for
# servers of its own (Flight, S3). The SQL of the image runs without them.
set -eu
cd "$1"
rm -rf pip pip-* setuptools setuptools-* pkg_resources _distutils_hack distutils-precedence.pth
rm -rf pyarrow/include pyarrow/tests pyarrow/src numpy/*/tests numpy/tests
rm -f pyarrow/libarrow_flight* pyarrow/_flight* pyarrow/libarrow_s3* pyarrow/_s3fs*
# These wheels have their debug symbols. Not others: those whose libraries a wheel's maker has moved break.
strip --strip-unneeded zstandard/*.so uvloop/*.so fastavro/*.so
