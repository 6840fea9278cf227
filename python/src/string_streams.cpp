// The string streams that torch's headers use, compiled into the operators: those of GCC 12's library have members that
// GCC 8's has not, and a wheel for glibc 2.28 may meet the latter (cmake/FlashmoeOldGlibc.cmake).
#include <sstream>

template class std::basic_stringbuf<char>;
template class std::basic_ostringstream<char>;
template class std::basic_stringstream<char>;
